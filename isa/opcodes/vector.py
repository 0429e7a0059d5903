"""Vector ALU instructions with short encodings as data: VOP1, VOP2, VOPC (shapes as LLVM 22 accepts them).

A row is `NAME TYPES FLAGS`; TYPES are those of the destination and the sources. NAME may hold {x,y} alternatives; $1, $2
stand for the chosen ones in the rest of the row. Every row has the forms _e32, _e64, _sdwa and _dpp except where a flag or
a 64-bit type forbids: -e64, -sdwa, -dpp. A row with a float type has clamp and omod in _e64 and _sdwa; -omod and clamp say
otherwise. Further flags: bare one form without suffix, sdst a scalar destination, acc AGPRs, swap both operands read and
written, fi modifiers bound_ctrl and fi in _e64, sdwa has _sdwa in spite of 64 bits, -dst_sel no dst_sel there; cout and cin a
carry written and read (vcc in short forms), k a literal in the encoding, exec EXEC is written too; rw the destination is
read as well, mods float modifiers on integer types, trans the slow function unit, dot a dot product, class=x a further
hazard class, @gfx950 only there.
"""

TABLES: dict[str, str] = {}

TABLES["VOP1"] = """
v_nop                                -              bare
v_clrexcp                            -              bare
v_mov_b32                            b32,b32
v_readfirstlane_b32                  b32,b32        bare sdst class=readlane class=readfirstlane
v_{cvt_i32_f64,frexp_exp_i32_f64}    i32,f64
v_cvt_u32_f64                        u32,f64
v_cvt_f64_{i32,u32,f32}              f64,$1
v_cvt_f32_{i32,u32,f16,f64}          f32,$1
v_cvt_f32_bf16                       f32,bf16       @gfx950
v_cvt_{u32,i32}_f32                  $1,f32
v_{cvt_rpi_i32_f32,cvt_flr_i32_f32,frexp_exp_i32_f32}  i32,f32  -omod
v_cvt_f16_{f32,u16,i16}              f16,$1
v_cvt_{u16,i16}_f16                  $1,f16
v_frexp_exp_i16_f16                  i16,f16
v_cvt_norm_{i16,u16}_f16             $1,f16
v_cvt_off_f32_i4                     f32,b32
v_cvt_f32_{ubyte0,ubyte1,ubyte2,ubyte3}  f32,b32
v_cvt_f32_{fp8,bf8}                  f32,$1         -dst_sel
v_cvt_pk_f32_{fp8,bf8}               v2f32,$1       -dst_sel sdwa
v_{trunc,ceil,rndne,floor,fract,frexp_mant}_{f16,f32,f64}  $2,$2
v_{rcp,rsq,sqrt}_{f16,f32,f64}       $2,$2          trans
v_{exp,log,sin,cos}_{f16,f32}        $2,$2          trans
v_{rcp_iflag_f32,exp_legacy_f32,log_legacy_f32}  f32,f32  trans
v_not_b32                            b32,b32
v_bfrev_b32                          b32,b32
v_ffbh_{u32,i32}                     i32,$1
v_ffbl_b32                           i32,b32
v_screen_partition_4se_b32           b32,b32
v_mov_b64                            b64,b64
v_sat_pk_u8_i16                      b32,v2i16
v_prng_b32                           b32,b32        @gfx950
v_swap_b32                           b32,b32        bare swap
v_{permlane16_swap,permlane32_swap}_b32  b32,b32    swap fi class=permlane_swap @gfx950
v_accvgpr_mov_b32                    b32,b32        bare acc
"""

TABLES["VOP2"] = """
v_cndmask_b32                        b32,b32,b32    mods cin
v_{add,sub,subrev,mul,min,max}_{f32,f16}  $2,$2,$2
v_fmac_f64                           f64,f64,f64    rw class=fma64
v_fmac_f32                           f32,f32,f32    rw -sdwa
v_mac_f16                            f16,f16,f16    rw -sdwa
v_pk_fmac_f16                        v2f16,v2f16,v2f16  rw
v_mul_i32_i24                        i32,i32,i32    clamp
v_mul_u32_u24                        u32,u32,u32    clamp
v_mul_hi_i32_i24                     i32,i32,i32
v_mul_hi_u32_u24                     u32,u32,u32
v_{min,max}_{i32,u32,i16,u16}        $2,$2,$2
v_{lshrrev,lshlrev}_{b32,b16}        $2,$2,$2
v_ashrrev_{i32,i16}                  $1,$1,$1
v_{and,or,xor,xnor}_b32              b32,b32,b32
v_fmamk_f32                          f32,f32,k,f32
v_fmaak_f32                          f32,f32,f32,k
v_madmk_f16                          f16,f16,k,f16
v_madak_f16                          f16,f16,f16,k
v_{add,sub,subrev}_co_u32            u32,u32,u32    clamp cout
v_{addc,subb,subbrev}_co_u32         u32,u32,u32    clamp cout cin
v_{add,sub,subrev}_{u32,u16}         $2,$2,$2       clamp
v_mul_lo_u16                         u16,u16,u16
v_ldexp_f16                          f16,f16,i16
v_dot2c_f32_f16                      f32,v2f16,v2f16    rw dot -sdwa
v_dot2c_f32_bf16                     f32,v2bf16,v2bf16  rw dot -sdwa @gfx950
v_dot2c_i32_i16                      i32,v2i16,v2i16    rw dot -sdwa clamp
v_dot4c_i32_i8                       i32,v4i8,v4i8      rw dot -sdwa clamp
v_dot8c_i32_i4                       i32,v8i4,v8i4      rw dot -sdwa clamp
"""

TABLES["VOPC"] = """
v_cmp_class_{f16,f32,f64}            $1,b32
v_cmpx_class_{f16,f32,f64}           $1,b32         exec
v_cmp_{f,lt,eq,le,gt,lg,ge,o,u,nge,nlg,ngt,nle,neq,nlt,tru}_{f16,f32,f64}   $2,$2
v_cmpx_{f,lt,eq,le,gt,lg,ge,o,u,nge,nlg,ngt,nle,neq,nlt,tru}_{f16,f32,f64}  $2,$2  exec
v_cmp_{f,lt,eq,le,gt,ne,ge,t}_{i16,u16,i32,u32,i64,u64}   $2,$2
v_cmpx_{f,lt,eq,le,gt,ne,ge,t}_{i16,u16,i32,u32,i64,u64}  $2,$2  exec
"""
