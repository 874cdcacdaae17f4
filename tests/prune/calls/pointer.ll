; A call of a pointer that is named NRT_decref. The pruner takes it for a call of other code: behind a
; raise mark the reference of %b2 counts as lost, and its pair is removed. The interpreter runs the
; call as a decref. It finds one reference less than before, one of those that the function itself
; loses there.

@error = global i8 0

declare void @NRT_incref(ptr)
declare void @NRT_decref(ptr)
declare void @use(ptr)

define i32 @raises(ptr %excinfo, ptr %p0, i1 %c0, ptr %NRT_decref) {
b0:
  call void @NRT_incref(ptr %p0)
  call void @NRT_incref(ptr %p0)
  br label %b2
b2:
  call void @NRT_incref(ptr %p0)
  br i1 %c0, label %b3, label %b4
b3:
  call void @NRT_decref(ptr %p0)
  call void @NRT_decref(ptr %p0)
  store ptr @error, ptr %excinfo, !numba_exception_output !0
  ret i32 0
b4:
  call void @use(ptr %p0)
  call void %NRT_decref(ptr %p0)
  store ptr @error, ptr %excinfo, !numba_exception_output !0
  ret i32 0
}

!0 = !{i1 true}
