; The incref belongs to the decref on the normal path. On the other path an exception is raised and
; caught in the same function, and the reference goes to the caller through %retptr.
declare void @NRT_incref(ptr)
declare void @NRT_decref(ptr)
declare void @use(ptr)
@error = external global i8

define i32 @f(ptr %retptr, ptr %excinfo, ptr %x, i1 %normally) {
entry:
  call void @NRT_incref(ptr %x)
  br i1 %normally, label %normal, label %raise
normal:
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  store ptr null, ptr %retptr
  ret i32 0
raise:
  store ptr @error, ptr %excinfo, !numba_exception_output !0
  br label %handler
handler:
  store ptr %x, ptr %retptr
  ret i32 0
}
!0 = !{i1 true}
