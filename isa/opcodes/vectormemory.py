"""Vector memory and LDS instructions as data: DS, MUBUF, MTBUF, FLAT, GLOBAL, SCRATCH (shapes as LLVM 22 accepts them).

A row is `NAME DATA FLAGS`. NAME may hold {x,y} alternatives; $1, $2 stand for the chosen ones in the rest of the row.
DS: DATA lists the operands, `d:type` the destination, `a` the address, `x:type` and `y:type` the data. Flags: load, store,
atomic, lane (crosses lanes without memory), two (offset0 and offset1 count elements), hi (upper half of the register), keep (the
other half of the destination stays), tr (transposes), m0 (reads M0), gws (global wave sync).
Others: DATA is the data's type in registers. Flags: load, store, atomic, hi, keep as above; format (converts); lds=... the LDS-DMA forms'
architectures, lds an LDS-DMA instruction; mem=type the element in memory where it differs; compare half of the data is
compared with; vret the returning form has no AGPRs, asc1 none with sc1; @gfx950 only there.
"""

TABLES: dict[str, str] = {}

TABLES["DS"] = """
ds_nop                               -                      lane
ds_{add,sub,rsub,inc,dec,min,max}_{u32,u64}           a,x:$2                 atomic
ds_{min,max}_{i32,i64,f32,f64}                        a,x:$2                 atomic
ds_{and,or,xor}_{b32,b64}                             a,x:$2                 atomic
ds_{mskor,cmpst}_{b32,b64}                            a,x:$2,y:$2            atomic
ds_cmpst_{f32,f64}                                    a,x:$1,y:$1            atomic
ds_add_{f32,f64}                                      a,x:$1                 atomic
ds_pk_add_f16                                         a,x:v2f16              atomic
ds_pk_add_bf16                                        a,x:v2bf16             atomic
ds_{add,sub,rsub,inc,dec,min,max}_rtn_{u32,u64}       d:$2,a,x:$2            atomic
ds_{min,max}_rtn_{i32,i64,f32,f64}                    d:$2,a,x:$2            atomic
ds_{and,or,xor,wrxchg}_rtn_{b32,b64}                  d:$2,a,x:$2            atomic
ds_{mskor,cmpst}_rtn_{b32,b64}                        d:$2,a,x:$2,y:$2       atomic
ds_cmpst_rtn_{f32,f64}                                d:$1,a,x:$1,y:$1       atomic
ds_wrap_rtn_b32                                       d:b32,a,x:b32,y:b32    atomic
ds_add_rtn_{f32,f64}                                  d:$1,a,x:$1            atomic
ds_pk_add_rtn_f16                                     d:v2f16,a,x:v2f16      atomic
ds_pk_add_rtn_bf16                                    d:v2bf16,a,x:v2bf16    atomic
ds_{wrxchg2,wrxchg2st64}_rtn_b32                      d:b64,a,x:b32,y:b32    atomic two
ds_{wrxchg2,wrxchg2st64}_rtn_b64                      d:b128,a,x:b64,y:b64   atomic two
ds_condxchg32_rtn_b64                                 d:b64,a,x:b64          atomic
ds_write_{b8,b16,b32,b64,b96,b128}                    a,x:$1                 store
ds_write_b8_d16_hi                                    a,x:b8                 store hi
ds_write_b16_d16_hi                                   a,x:b16                store hi
ds_{write2,write2st64}_{b32,b64}                      a,x:$2,y:$2            store two
ds_write_addtid_b32                                   x:b32                  store m0
ds_read_{i8,u8,i16,u16,b32,b64,b96,b128}              d:$1,a                 load
ds_read_{u8,i8,u16}_d16                               d:$1,a                 load keep
ds_read_{u8,i8,u16}_d16_hi                            d:$1,a                 load keep hi
ds_{read2,read2st64}_b32                              d:b64,a                load two
ds_{read2,read2st64}_b64                              d:b128,a               load two
ds_read_addtid_b32                                    d:b32                  load m0
ds_{consume,append}                                   d:u32                  atomic m0
ds_swizzle_b32                                        d:b32,a                lane
ds_{permute,bpermute}_b32                             d:b32,a,x:b32          lane
ds_read_b64_tr_{b4,b8,b16}                            d:b64,a                load tr @gfx950
ds_read_b96_tr_b6                                     d:b96,a                load tr @gfx950
ds_gws_{init,barrier,sema_br}                         x:b32                  gws
ds_gws_{sema_v,sema_p,sema_release_all}               -                      gws
"""

TABLES["MUBUF"] = """
buffer_load_{ubyte,sbyte}            b32      load mem=$1 lds=all
buffer_load_{ushort,sshort}          b32      load mem=$1 lds=all
buffer_load_dword                    b32      load lds=all
buffer_load_dwordx2                  b64      load
buffer_load_dwordx3                  b96      load lds=gfx950
buffer_load_dwordx4                  b128     load lds=gfx950
buffer_load_{ubyte,sbyte}_d16        b32      load mem=$1 keep
buffer_load_{ubyte,sbyte}_d16_hi     b32      load mem=$1 keep hi
buffer_load_short_d16                b32      load mem=ushort keep
buffer_load_short_d16_hi             b32      load mem=ushort keep hi
buffer_load_format_x                 b32      load format lds=all
buffer_load_format_xy                b64      load format
buffer_load_format_xyz               b96      load format
buffer_load_format_xyzw              b128     load format
buffer_load_format_{d16_x,d16_xy}    b32      load format
buffer_load_format_{d16_xyz,d16_xyzw}  b64    load format
buffer_load_format_d16_hi_x          b32      load format keep hi
buffer_store_byte                    b32      store mem=ubyte
buffer_store_short                   b32      store mem=ushort
buffer_store_byte_d16_hi             b32      store mem=ubyte hi
buffer_store_short_d16_hi            b32      store mem=ushort hi
buffer_store_dword                   b32      store
buffer_store_dwordx2                 b64      store
buffer_store_dwordx3                 b96      store
buffer_store_dwordx4                 b128     store
buffer_store_format_{x,d16_x,d16_xy,d16_hi_x}  b32  store format
buffer_store_format_{xy,d16_xyz,d16_xyzw}      b64  store format
buffer_store_format_xyz              b96      store format
buffer_store_format_xyzw             b128     store format
buffer_atomic_{swap,add,sub,umin,umax,and,or,xor,inc,dec}  u32  atomic
buffer_atomic_{smin,smax}            i32      atomic
buffer_atomic_cmpswap                u64      atomic compare
buffer_atomic_{swap,add,sub,umin,umax,and,or,xor,inc,dec}_x2  u64  atomic
buffer_atomic_{smin,smax}_x2         i64      atomic
buffer_atomic_cmpswap_x2             b128     atomic compare
buffer_atomic_add_f32                f32      atomic
buffer_atomic_pk_add_f16             v2f16    atomic
buffer_atomic_pk_add_bf16            v2bf16   atomic @gfx950
buffer_atomic_{add,min,max}_f64      f64      atomic
buffer_wbl2                          -        cache
buffer_inv                           -        cache
"""

TABLES["MTBUF"] = """
tbuffer_load_format_x                b32      load format
tbuffer_load_format_xy               b64      load format
tbuffer_load_format_xyz              b96      load format
tbuffer_load_format_xyzw             b128     load format
tbuffer_load_format_{d16_x,d16_xy}   b32      load format
tbuffer_load_format_{d16_xyz,d16_xyzw}  b64   load format
tbuffer_store_format_{x,d16_x,d16_xy}   b32   store format
tbuffer_store_format_{xy,d16_xyz,d16_xyzw}  b64  store format
tbuffer_store_format_xyz             b96      store format
tbuffer_store_format_xyzw            b128     store format
"""

TABLES["FLAT"] = """
{flat,global,scratch}_load_{ubyte,sbyte,ushort,sshort}  b32  load mem=$2
{flat,global,scratch}_load_dword             b32      load
{flat,global,scratch}_load_dwordx2           b64      load
{flat,global,scratch}_load_dwordx3           b96      load
{flat,global,scratch}_load_dwordx4           b128     load
{flat,global,scratch}_load_{ubyte,sbyte}_d16     b32  load mem=$2 keep
{flat,global,scratch}_load_{ubyte,sbyte}_d16_hi  b32  load mem=$2 keep hi
{flat,global,scratch}_load_short_d16         b32      load mem=ushort keep
{flat,global,scratch}_load_short_d16_hi      b32      load mem=ushort keep hi
{flat,global,scratch}_store_byte             b32      store mem=ubyte
{flat,global,scratch}_store_short            b32      store mem=ushort
{flat,global,scratch}_store_byte_d16_hi      b32      store mem=ubyte hi
{flat,global,scratch}_store_short_d16_hi     b32      store mem=ushort hi
{flat,global,scratch}_store_dword            b32      store
{flat,global,scratch}_store_dwordx2          b64      store
{flat,global,scratch}_store_dwordx3          b96      store
{flat,global,scratch}_store_dwordx4          b128     store
{global,scratch}_load_lds_{ubyte,sbyte,ushort,sshort}  -  lds mem=$2
{global,scratch}_load_lds_dword              -        lds mem=b32
global_load_lds_dwordx3                      -        lds mem=b96 @gfx950
global_load_lds_dwordx4                      -        lds mem=b128 @gfx950
{flat,global}_atomic_{swap,add,sub,umin,umax,and,or,xor,inc,dec}  u32  atomic
{flat,global}_atomic_{smin,smax}             i32      atomic
{flat,global}_atomic_cmpswap                 u64      atomic compare
{flat,global}_atomic_{swap,add,sub,umin,umax,and,or,xor,inc,dec}_x2  u64  atomic
{flat,global}_atomic_{smin,smax}_x2          i64      atomic
{flat,global}_atomic_cmpswap_x2              b128     atomic compare
flat_atomic_add_f32                          f32      atomic
global_atomic_add_f32                        f32      atomic vret
flat_atomic_pk_add_f16                       v2f16    atomic
global_atomic_pk_add_f16                     v2f16    atomic vret
{flat,global}_atomic_pk_add_bf16             v2bf16   atomic
{flat,global}_atomic_{add,min,max}_f64       f64      atomic asc1
"""
