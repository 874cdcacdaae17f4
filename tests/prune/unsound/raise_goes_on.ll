; A block with a raise mark does not end the function: its successors still count.
declare void @NRT_incref(ptr)
declare void @NRT_decref(ptr)
declare void @use(ptr) readonly
@error = external global i8

define i32 @decref_after_the_raise(ptr %excinfo, ptr %p, i1 %c0, i1 %c1) {
entry:
  br i1 %c0, label %head, label %cleanup
head:
  call void @NRT_incref(ptr %p)
  br i1 %c1, label %raise, label %tail
raise:
  store ptr @error, ptr %excinfo, !numba_exception_output !0
  br label %cleanup
cleanup:
  call void @NRT_decref(ptr %p)
  ret i32 1
tail:
  call void @NRT_decref(ptr %p)
  ret i32 0
}

define i32 @alias_after_the_raise(ptr %excinfo, ptr %p, ptr %q, i1 %c0) {
entry:
  call void @NRT_incref(ptr %p)
  br i1 %c0, label %raise, label %tail
raise:
  store ptr @error, ptr %excinfo, !numba_exception_output !0
  br label %cleanup
cleanup:
  call void @NRT_decref(ptr %q)
  call void @use(ptr %p)
  ret i32 1
tail:
  call void @NRT_decref(ptr %p)
  ret i32 0
}

define i32 @way_in_through_the_raise(ptr %excinfo, ptr %p, i1 %c0, i1 %c1) {
entry:
  br i1 %c0, label %caught, label %head
head:
  call void @NRT_incref(ptr %p)
  br i1 %c1, label %raise, label %tail
raise:
  store ptr @error, ptr %excinfo, !numba_exception_output !0
  ret i32 1
caught:
  store ptr @error, ptr %excinfo, !numba_exception_output !0
  br label %tail
tail:
  call void @NRT_decref(ptr %p)
  ret i32 0
}

define i32 @decref_in_a_raising_block(ptr %excinfo, ptr %p, i1 %c0, i1 %c1) {
entry:
  br i1 %c0, label %both, label %head
head:
  call void @NRT_incref(ptr %p)
  br i1 %c1, label %raise, label %both
raise:
  store ptr @error, ptr %excinfo, !numba_exception_output !0
  ret i32 1
both:
  store ptr @error, ptr %excinfo, !numba_exception_output !0
  call void @NRT_decref(ptr %p)
  ret i32 1
}
!0 = !{i1 true}
