"""Scalar instructions as data: SOP1, SOP2, SOPC, SOPK, SOPP and SMEM (names and operand shapes as LLVM 22 accepts them).

A row is `NAME OPERANDS FLAGS`. NAME may hold {x,y} alternatives; $1, $2 stand for the chosen ones in the rest of the row.
OPERANDS are `name:type` or the section's shorthand. Flags: scc writes SCC, rscc reads it, rw the destination is read as well,
exec/rexec write/read EXEC, m0/rm0 likewise, rvcc reads VCC; register: no constants as source, nolit: no literals;
class=x adds a hazard class.
"""

TABLES: dict[str, str] = {}

# Types of destination and sources.
TABLES["SOP2"] = """
s_{add,sub}_{u32,i32}                $2,$2,$2     scc
s_{addc,subb}_u32                    u32,u32,u32  scc rscc
s_{min,max}_{i32,u32}                $2,$2,$2     scc
s_cselect_{b32,b64}                  $1,$1,$1     rscc
s_{and,or,xor,andn2,orn2,nand,nor,xnor}_{b32,b64}  $2,$2,$2  scc
s_{lshl,lshr}_b32                    b32,b32,u32  scc
s_{lshl,lshr}_b64                    b64,b64,u32  scc
s_ashr_i32                           i32,i32,u32  scc
s_ashr_i64                           i64,i64,u32  scc
s_bfm_b32                            b32,u32,u32
s_bfm_b64                            b64,u32,u32
s_mul_i32                            i32,i32,i32
s_mul_hi_{u32,i32}                   $1,$1,$1
s_bfe_{u32,i32,u64,i64}              $1,$1,u32    scc
s_cbranch_g_fork                     -,b64,b64    rexec exec class=branch nolit
s_absdiff_i32                        i32,i32,i32  scc
s_rfe_restore_b64                    -,b64,b32    class=branch class=rfe
s_{lshl1,lshl2,lshl3,lshl4}_add_u32  u32,u32,u32  scc
s_pack_{ll,lh,hh}_b32_b16            b32,b32,b32
"""

TABLES["SOP1"] = """
s_mov_{b32,b64}                      $1,$1
s_cmov_{b32,b64}                     $1,$1        rscc rw
s_{not,wqm,quadmask}_{b32,b64}       $2,$2        scc
s_brev_{b32,b64}                     $1,$1
s_{bcnt0,bcnt1}_i32_{b32,b64}        i32,$2       scc
s_{ff0,ff1,flbit}_i32_{b32,b64}      i32,$2
s_flbit_i32                          i32,i32
s_flbit_i32_i64                      i32,i64
s_sext_i32_{i8,i16}                  i32,i32
s_{bitset0,bitset1}_b32              b32,u32      rw
s_{bitset0,bitset1}_b64              b64,u32      rw
s_getpc_b64                          b64,-
s_setpc_b64                          -,b64        class=branch register
s_swappc_b64                         b64,b64      class=branch
s_rfe_b64                            -,b64        class=branch class=rfe register
s_{and,or,xor,andn2,orn2,nand,nor,xnor,andn1,orn1}_saveexec_b64  b64,b64  scc rexec exec
s_{andn1,andn2}_wrexec_b64           b64,b64      scc rexec exec
s_movrels_{b32,b64}                  $1,$1        rm0 class=movrel register
s_movreld_{b32,b64}                  $1,$1        rm0 class=movrel
s_cbranch_join                       -,b32        class=branch register rexec exec
s_abs_i32                            i32,i32      scc
s_set_gpr_idx_idx                    -,b32        rm0 m0
s_bitreplicate_b64_b32               b64,b32
"""

TABLES["SOPC"] = """
s_cmp_{eq,lg,gt,ge,lt,le}_{i32,u32}  $2,$2        scc
s_cmp_{eq,lg}_u64                    u64,u64      scc
s_{bitcmp0,bitcmp1}_b32              b32,u32      scc
s_{bitcmp0,bitcmp1}_b64              b64,u32      scc
s_setvskip                           b32,u32      class=setvskip
s_set_gpr_idx_on                     b32,gpr_idx  rm0 m0
"""

# sdst and simm16, or the operands in words.
TABLES["SOPK"] = """
s_movk_i32                           i32,imm
s_cmovk_i32                          i32,imm      rscc rw
s_cmpk_{eq,lg,gt,ge,lt,le}_i32       -i32,imm     scc
s_cmpk_{eq,lg,gt,ge,lt,le}_u32       -u32,uimm    scc
s_addk_i32                           i32,imm      rw scc
s_mulk_i32                           i32,imm      rw
s_cbranch_i_fork                     -b64,target  class=branch rexec exec
s_getreg_b32                         b32,hwreg    class=getreg
s_setreg_b32                         hwreg,b32    class=setreg
s_setreg_imm32_b32                   hwreg,lit    class=setreg
s_call_b64                           b64,target   class=branch
"""

# "code": it may have a number, which tools that read the code see.
TABLES["SOPP"] = """
s_nop                                wait:0:15    class=nop
s_endpgm                             -            class=end code
s_{endpgm_saved,endpgm_ordered_ps_done}  -        class=end
s_branch                             target       class=branch
s_{wakeup,icache_inv,set_gpr_idx_off}  -
s_{cbranch_scc0,cbranch_scc1}        target       class=branch rscc
s_{cbranch_vccz,cbranch_vccnz}       target       class=branch rvcc
s_{cbranch_execz,cbranch_execnz}     target       class=branch rexec
s_{cbranch_cdbgsys,cbranch_cdbguser,cbranch_cdbgsys_or_user,cbranch_cdbgsys_and_user}  target  class=branch
s_barrier                            -            class=barrier
s_waitcnt                            waitcnt      class=wait
s_{sethalt,sleep,setprio,trap,setkill,incperflevel,decperflevel}  value:0:65535
s_{sendmsg,sendmsghalt}              sendmsg      rm0 class=sendmsg
s_ttracedata                         -            rm0 class=ttracedata
s_set_gpr_idx_mode                   gpr_idx      rm0 m0
"""

# Data type, base ("ptr" is 64 bits, "rsrc" a 128-bit descriptor), kind.
TABLES["SMEM"] = """
s_{load,scratch_load}_dword          b32,ptr      load
s_{load,scratch_load}_dwordx2        b64,ptr      load
s_{load,scratch_load}_dwordx4        b128,ptr     load
s_load_dwordx8                       b256,ptr     load
s_load_dwordx16                      b512,ptr     load
s_buffer_load_dword                  b32,rsrc     load
s_buffer_load_dwordx2                b64,rsrc     load
s_buffer_load_dwordx4                b128,rsrc    load
s_buffer_load_dwordx8                b256,rsrc    load
s_buffer_load_dwordx16               b512,rsrc    load
s_{store,scratch_store}_dword        b32,ptr      store
s_{store,scratch_store}_dwordx2      b64,ptr      store
s_{store,scratch_store}_dwordx4      b128,ptr     store
s_buffer_store_dword                 b32,rsrc     store
s_buffer_store_dwordx2               b64,rsrc     store
s_buffer_store_dwordx4               b128,rsrc    store
s_{dcache_inv,dcache_wb,dcache_inv_vol,dcache_wb_vol}  -,-  cache
s_{memtime,memrealtime}              b64,-        time
s_atc_probe                          probe,ptr    cache
s_atc_probe_buffer                   probe,rsrc   cache
s_{dcache_discard,dcache_discard_x2}  -,ptr       cache
s_atomic_{swap,add,sub,and,or,xor,inc,dec}            u32,ptr    atomic
s_atomic_{smin,smax}                                  i32,ptr    atomic
s_atomic_{umin,umax}                                  u32,ptr    atomic
s_atomic_cmpswap                                      u64,ptr    atomic
s_atomic_{swap,add,sub,and,or,xor,inc,dec}_x2         u64,ptr    atomic
s_atomic_{smin,smax}_x2                               i64,ptr    atomic
s_atomic_{umin,umax}_x2                               u64,ptr    atomic
s_atomic_cmpswap_x2                                   b128,ptr   atomic
s_buffer_atomic_{swap,add,sub,and,or,xor,inc,dec}     u32,rsrc   atomic
s_buffer_atomic_{smin,smax}                           i32,rsrc   atomic
s_buffer_atomic_{umin,umax}                           u32,rsrc   atomic
s_buffer_atomic_cmpswap                               u64,rsrc   atomic
s_buffer_atomic_{swap,add,sub,and,or,xor,inc,dec}_x2  u64,rsrc   atomic
s_buffer_atomic_{smin,smax}_x2                        i64,rsrc   atomic
s_buffer_atomic_{umin,umax}_x2                        u64,rsrc   atomic
s_buffer_atomic_cmpswap_x2                            b128,rsrc  atomic
"""
