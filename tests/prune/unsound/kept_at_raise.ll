; The reference of the pair itself goes to another owner on the path that raises: the caller,
; through %retptr, or the owner of @kept. The other path releases it.
declare void @NRT_incref(ptr)
declare void @NRT_decref(ptr)
declare void @use(ptr) readonly
@error = external global i8
@kept = external global ptr

define i32 @kept_behind_the_raise(ptr %excinfo, ptr %x, i1 %c) {
entry:
  call void @NRT_incref(ptr %x)
  br i1 %c, label %normal, label %raise
normal:
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret i32 0
raise:
  store ptr @error, ptr %excinfo, !numba_exception_output !0
  br label %handler
handler:
  store ptr %x, ptr @kept
  ret i32 0
}

define i32 @kept_before_the_raise(ptr %excinfo, ptr %x, i1 %c) {
entry:
  call void @NRT_incref(ptr %x)
  br i1 %c, label %normal, label %raise
normal:
  call void @NRT_decref(ptr %x)
  ret i32 0
raise:
  store ptr %x, ptr @kept
  store ptr @error, ptr %excinfo, !numba_exception_output !0
  ret i32 1
}

define i32 @returned_by_the_handler(ptr %retptr, ptr %excinfo, ptr %x, i1 %c) {
entry:
  call void @NRT_incref(ptr %x)
  br i1 %c, label %normal, label %raise
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

; The path also takes and releases another value.
define i32 @kept_beside_a_pair(ptr %excinfo, ptr %x, ptr %y, i1 %c) {
entry:
  call void @NRT_incref(ptr %x)
  br i1 %c, label %normal, label %keeps
normal:
  call void @NRT_decref(ptr %x)
  ret i32 0
keeps:
  call void @NRT_incref(ptr %y)
  call void @NRT_decref(ptr %y)
  store ptr %x, ptr @kept
  br label %raise
raise:
  store ptr @error, ptr %excinfo, !numba_exception_output !0
  ret i32 0
}
!0 = !{i1 true}
