/* kernels.h -- the kernels of the order tests on a real GPU, as PTX that its driver
 * compiles.
 *
 * order_fill(words, count, tag): each word becomes the tag. order_verify(words, count,
 * tag, report): report[0] counts the words that are not the tag, report[1] and [2] keep
 * the tag and the word of the first, report[4] and [5] its address. order_spin(ns): runs
 * that long.
 */
#ifndef ORDER_KERNELS_H
#define ORDER_KERNELS_H

/* clang-format off */
static const char order_kernels[] =
    ".version 7.0\n"
    ".target sm_70\n"
    ".address_size 64\n"
    ".visible .entry order_fill( .param .u64 order_fill_param_0,\n"
    ".param .u64 order_fill_param_1, .param .u32 order_fill_param_2 ) {\n"
    ".reg .pred %p<3>; .reg .b32 %r<6>; .reg .b64 %rd<15>;\n"
    "ld.param.u64 %rd7, [order_fill_param_0];\n"
    "ld.param.u64 %rd8, [order_fill_param_1];\n"
    "ld.param.u32 %r1, [order_fill_param_2]; mov.u32 %r2, %ctaid.x;\n"
    "mov.u32 %r3, %ntid.x; cvt.u64.u32 %rd1, %r3;\n"
    "mul.wide.u32 %rd9, %r2, %r3; mov.u32 %r4, %tid.x;\n"
    "cvt.u64.u32 %rd10, %r4; add.s64 %rd14, %rd9, %rd10;\n"
    "setp.ge.u64 %p1, %rd14, %rd8; @%p1 bra $L__BB0_3;\n"
    "mov.u32 %r5, %nctaid.x; cvt.u64.u32 %rd11, %r5;\n"
    "mul.lo.s64 %rd3, %rd11, %rd1; cvta.to.global.u64 %rd4, %rd7; $L__BB0_2:\n"
    "shl.b64 %rd12, %rd14, 2; add.s64 %rd13, %rd4, %rd12;\n"
    "st.global.u32 [%rd13], %r1; add.s64 %rd14, %rd14, %rd3;\n"
    "setp.lt.u64 %p2, %rd14, %rd8; @%p2 bra $L__BB0_2; $L__BB0_3: ret; }\n"
    ".visible .entry order_verify( .param .u64 order_verify_param_0,\n"
    ".param .u64 order_verify_param_1, .param .u32 order_verify_param_2,\n"
    ".param .u64 order_verify_param_3 ) { .reg .pred %p<5>; .reg .b32 %r<9>;\n"
    ".reg .b64 %rd<16>; ld.param.u64 %rd7, [order_verify_param_0];\n"
    "ld.param.u64 %rd8, [order_verify_param_1];\n"
    "ld.param.u32 %r2, [order_verify_param_2];\n"
    "ld.param.u64 %rd9, [order_verify_param_3];\n"
    "cvta.to.global.u64 %rd1, %rd9; mov.u32 %r3, %ctaid.x;\n"
    "mov.u32 %r4, %ntid.x; cvt.u64.u32 %rd2, %r4;\n"
    "mul.wide.u32 %rd10, %r3, %r4; mov.u32 %r5, %tid.x;\n"
    "cvt.u64.u32 %rd11, %r5; add.s64 %rd15, %rd10, %rd11;\n"
    "setp.ge.u64 %p1, %rd15, %rd8; @%p1 bra $L__BB1_6;\n"
    "mov.u32 %r6, %nctaid.x; cvt.u64.u32 %rd12, %r6;\n"
    "mul.lo.s64 %rd4, %rd12, %rd2; $L__BB1_2: shl.b64 %rd14, %rd15, 2;\n"
    "add.s64 %rd13, %rd7, %rd14; ld.global.cg.u32 %r7, [%rd13];\n"
    "setp.eq.s32 %p2, %r7, %r2; @%p2 bra $L__BB1_5;\n"
    "atom.global.add.u32 %r8, [%rd1], 1; setp.ne.s32 %p3, %r8, 0;\n"
    "@%p3 bra $L__BB1_5; st.global.u32 [%rd1+4], %r2;\n"
    "st.global.u32 [%rd1+8], %r7; st.global.u64 [%rd1+16], %rd13;\n"
    "$L__BB1_5: add.s64 %rd15, %rd15, %rd4;\n"
    "setp.lt.u64 %p4, %rd15, %rd8; @%p4 bra $L__BB1_2; $L__BB1_6: ret; }\n"
    ".visible .entry order_spin( .param .u64 order_spin_param_0 ) {\n"
    ".reg .pred %p<2>; .reg .b32 %r<2>; .reg .b64 %rd<6>;\n"
    "ld.param.u64 %rd2, [order_spin_param_0]; mov.u64 %rd3, %globaltimer;\n"
    "$L__BB2_1: mov.u32 %r1, 200; nanosleep.u32 %r1;\n"
    "mov.u64 %rd4, %globaltimer; sub.s64 %rd5, %rd4, %rd3;\n"
    "setp.lt.u64 %p1, %rd5, %rd2; @%p1 bra $L__BB2_1; ret; }\n";
/* clang-format on */

#endif
