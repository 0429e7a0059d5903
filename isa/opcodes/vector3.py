"""Vector ALU instructions that have the long encoding only, as data: VOP3, VOP3P (shapes as LLVM 22 accepts them).

A row is `NAME TYPES FLAGS`; TYPES are those of the destination and the sources, a number before a type counts registers
("6fp6": 32 values of 6 bits). NAME may hold {x,y} alternatives; $1, $2 stand for the chosen ones in the rest of the row.
VOP3: a row with a float type has clamp and omod; -omod, plain (neither) and clamp (without float types) say otherwise. Flags:
opsel op_sel for sources and destination, keep the rest of the destination register is kept (so it is read), nomods no
neg and abs, neg no abs, sdst a scalar destination follows, vgpr0 the first source is a register, bitop3, class=x,
rvcc reads VCC, rw the destination is read as well, @gfx950 only there.
VOP3P: all have clamp; the flag names the others: pk op_sel, op_sel_hi, neg_lo, neg_hi; dot neg_lo, neg_hi; mix op_sel, op_sel_hi
and neg and abs on the sources, whose constants are f16 and whose registers are f32 where op_sel_hi is 0.
"""

TABLES: dict[str, str] = {}

TABLES["VOP3"] = """
v_mad_i32_i24                        i32,i32,i32,i32    clamp
v_mad_u32_u24                        u32,u32,u32,u32    clamp
v_{cubeid,cubesc,cubetc,cubema}_f32  f32,f32,f32,f32
v_bfe_{u32,i32}                      $1,$1,u32,u32
v_bfi_b32                            b32,b32,b32,b32
v_fma_f32                            f32,f32,f32,f32
v_fma_f64                            f64,f64,f64,f64    class=fma64
v_lerp_u8                            b32,b32,b32,b32
v_{alignbit,alignbyte}_b32           b32,b32,b32,b32    clamp opsel
v_{min3,max3,med3}_f32               f32,f32,f32,f32
v_{min3,max3,med3}_{i32,u32}         $2,$2,$2,$2
v_{min3,max3,med3}_f16               f16,f16,f16,f16    opsel keep
v_{min3,max3,med3}_{i16,u16}         $2,$2,$2,$2        clamp opsel keep
v_{minimum3,maximum3}_f32            f32,f32,f32,f32    @gfx950
v_{sad_u8,sad_hi_u8,sad_u16,sad_u32,msad_u8}  u32,b32,b32,u32  clamp
v_cvt_pk_u8_f32                      b32,f32,u32,b32    -omod
v_cvt_pkaccum_u8_f32                 b32,f32,u32        -omod rw
v_div_fixup_{f32,f64}                $1,$1,$1,$1
v_div_scale_{f32,f64}                $1,$1,$1,$1        sdst neg
v_div_fmas_{f32,f64}                 $1,$1,$1,$1        class=div_fmas rvcc
v_{qsad,mqsad}_pk_u16_u8             b64,b64,b32,b64    clamp
v_mqsad_u32_u8                       4u32,b64,b32,4u32  clamp
v_mad_u64_u32                        u64,u32,u32,u64    sdst clamp
v_mad_i64_i32                        i64,i32,i32,i64    sdst clamp
v_{mad_legacy,fma_legacy,div_fixup_legacy}_f16  f16,f16,f16,f16
v_mad_legacy_{u16,i16}               $1,$1,$1,$1        clamp
v_{mad,fma,div_fixup}_f16            f16,f16,f16,f16    opsel keep
v_mad_{u16,i16}                      $1,$1,$1,$1        clamp opsel keep
v_mad_u32_u16                        u32,u16,u16,u32    clamp opsel
v_mad_i32_i16                        i32,i16,i16,i32    clamp opsel
v_perm_b32                           b32,b32,b32,b32
v_xad_u32                            u32,u32,u32,u32
v_lshl_add_u32                       u32,u32,u32,u32
v_add_lshl_u32                       u32,u32,u32,u32
v_add3_u32                           u32,u32,u32,u32
v_lshl_or_b32                        b32,b32,u32,b32
v_and_or_b32                         b32,b32,b32,b32
v_or3_b32                            b32,b32,b32,b32
v_lshl_add_u64                       u64,u64,u32,u64
v_{add,mul,min,max}_f64              f64,f64,f64
v_ldexp_f64                          f64,f64,i32
v_ldexp_f32                          f32,f32,i32
v_mul_lo_u32                         u32,u32,u32
v_mul_hi_{u32,i32}                   $1,$1,$1
v_readlane_b32                       b32,b32,b32        class=readlane
v_writelane_b32                      b32,b32,b32        class=writelane rw
v_bcnt_u32_b32                       u32,b32,u32
v_{mbcnt_lo,mbcnt_hi}_u32_b32        u32,b32,u32
v_{lshlrev,lshrrev}_b64              b64,u32,b64
v_ashrrev_i64                        i64,u32,i64
v_trig_preop_f64                     f64,f64,u32
v_bfm_b32                            b32,u32,u32
v_cvt_pknorm_i16_f32                 v2i16,f32,f32      -omod
v_cvt_pknorm_u16_f32                 v2u16,f32,f32      -omod
v_cvt_pknorm_i16_f16                 v2i16,f16,f16      -omod opsel
v_cvt_pknorm_u16_f16                 v2u16,f16,f16      -omod opsel
v_cvt_pkrtz_f16_f32                  v2f16,f32,f32
v_cvt_pk_u16_u32                     v2u16,u32,u32
v_cvt_pk_i16_i32                     v2i16,i32,i32
v_{add,sub}_i32                      i32,i32,i32        clamp
v_{add,sub}_i16                      i16,i16,i16        clamp opsel keep
v_pack_b32_f16                       v2f16,f16,f16      -omod opsel
v_mul_legacy_f32                     f32,f32,f32
v_cvt_pk_{fp8,bf8}_f32               $1,f32,f32         plain opsel rw
v_cvt_sr_{fp8,bf8}_f32               $1,f32,b32         plain opsel rw
v_cvt_pk_f16_f32                     v2f16,f32,f32      @gfx950
v_cvt_pk_bf16_f32                    v2bf16,f32,f32     @gfx950
v_cvt_sr_{f16,bf16}_f32              $1,f32,b32         plain opsel rw @gfx950
v_bitop3_b16                         b16,b16,b16,b16    opsel keep bitop3 @gfx950
v_bitop3_b32                         b32,b32,b32,b32    bitop3 @gfx950
v_ashr_pk_{i8,u8}_i32                b16,i32,i32,u32    opsel keep @gfx950
v_cvt_scalef32_pk_{fp8,bf8,fp4}_f32  $1,f32,f32,f32     plain opsel rw @gfx950
v_cvt_scalef32_pk_{fp8,bf8,fp4}_f16  $1,v2f16,f32       plain opsel rw @gfx950
v_cvt_scalef32_pk_{fp8,bf8,fp4}_bf16  $1,v2bf16,f32     plain opsel rw @gfx950
v_cvt_scalef32_sr_{fp8,bf8}_{f32,f16,bf16}  $1,$2,b32,f32  plain opsel rw @gfx950
v_cvt_scalef32_sr_pk_fp4_f32         fp4,v2f32,b32,f32  plain opsel rw vgpr0 @gfx950
v_cvt_scalef32_sr_pk_fp4_f16         fp4,v2f16,b32,f32  plain opsel rw @gfx950
v_cvt_scalef32_sr_pk_fp4_bf16        fp4,v2bf16,b32,f32  plain opsel rw @gfx950
v_cvt_scalef32_pk_f32_{fp8,bf8,fp4}  v2f32,$1,f32       plain opsel @gfx950
v_cvt_scalef32_f32_{fp8,bf8}         f32,$1,f32         plain opsel @gfx950
v_cvt_scalef32_pk_f16_{fp8,bf8,fp4}  v2f16,$1,f32       plain opsel @gfx950
v_cvt_scalef32_pk_bf16_{fp8,bf8,fp4}  v2bf16,$1,f32     plain opsel @gfx950
v_cvt_scalef32_f16_{fp8,bf8}         f16,$1,f32         plain opsel rw @gfx950
v_cvt_scalef32_2xpk16_{fp6,bf6}_f32  6$1,16f32,16f32,f32  plain nomods @gfx950
v_cvt_scalef32_sr_pk32_{fp6,bf6}_f32  6$1,32f32,b32,f32  plain nomods @gfx950
v_cvt_scalef32_pk32_f32_{fp6,bf6}    32f32,6$1,f32      plain nomods @gfx950
v_cvt_scalef32_pk32_{fp6,bf6}_f16    6$1,16v2f16,f32    plain nomods @gfx950
v_cvt_scalef32_pk32_{fp6,bf6}_bf16   6$1,16v2bf16,f32   plain nomods @gfx950
v_cvt_scalef32_sr_pk32_{fp6,bf6}_f16  6$1,16v2f16,b32,f32  plain nomods @gfx950
v_cvt_scalef32_sr_pk32_{fp6,bf6}_bf16  6$1,16v2bf16,b32,f32  plain nomods @gfx950
v_cvt_scalef32_pk32_f16_{fp6,bf6}    16v2f16,6$1,f32    plain nomods @gfx950
v_cvt_scalef32_pk32_bf16_{fp6,bf6}   16v2bf16,6$1,f32   plain nomods @gfx950
"""

TABLES["VOP3P"] = """
v_pk_mad_{i16,u16}                   v2$1,v2$1,v2$1,v2$1  pk
v_pk_mul_lo_u16                      v2u16,v2u16,v2u16    pk
v_pk_{add,sub,min,max}_{i16,u16}     v2$2,v2$2,v2$2       pk
v_pk_{lshlrev,lshrrev}_b16           v2u16,v2u16,v2u16    pk
v_pk_ashrrev_i16                     v2i16,v2u16,v2i16    pk
v_pk_fma_f16                         v2f16,v2f16,v2f16,v2f16  pk
v_pk_{add,mul,min,max}_f16           v2f16,v2f16,v2f16    pk
v_pk_{minimum3,maximum3}_f16         v2f16,v2f16,v2f16,v2f16  pk @gfx950
v_pk_fma_f32                         v2f32,v2f32,v2f32,v2f32  pk
v_pk_{mul,add}_f32                   v2f32,v2f32,v2f32    pk
v_pk_mov_b32                         v2b32,v2b32,v2b32    pk
v_fma_mix_f32                        f32,f16,f16,f16      mix
v_fma_mixlo_f16                      f16,f16,f16,f16      mix rw
v_fma_mixhi_f16                      f16,f16,f16,f16      mix rw
v_dot2_f32_f16                       f32,v2f16,v2f16,f32  dot
v_dot2_f32_bf16                      f32,v2bf16,v2bf16,f32  dot @gfx950
v_dot2_i32_i16                       i32,v2i16,v2i16,i32  dot
v_dot2_u32_u16                       u32,v2u16,v2u16,u32  dot
v_dot4_i32_i8                        i32,v4i8,v4i8,i32    dot
v_dot4_u32_u8                        u32,v4u8,v4u8,u32    dot
v_dot8_i32_i4                        i32,v8i4,v8i4,i32    dot
v_dot8_u32_u4                        u32,v8u4,v8u4,u32    dot
v_accvgpr_read_b32                   b32,b32              accread
v_accvgpr_write_b32                  b32,b32              accwrite
v_mfma_ld_scale_b32                  -,b32,b32            scale @gfx950
"""
