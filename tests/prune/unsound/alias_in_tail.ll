; Another reference to the object is released before the matched one, in the block where the
; pair would end, and the object is used in between. `%x` is an element of `%list`, which was
; popped (`%popped` is the same object). A Numba function reduces to this.
declare void @NRT_incref(ptr)
declare void @NRT_decref(ptr)
declare void @use(ptr) readonly
declare ptr @pick(i32) readonly
@error = external global i8

define i32 @alias_in_tail_of_fanout(ptr %excinfo, ptr %list, i1 %c0) {
entry:
  %x = call ptr @pick(i32 0)
  %popped = call ptr @pick(i32 1)
  call void @NRT_incref(ptr %x)
  br i1 %c0, label %raise, label %tail
raise:
  store ptr @error, ptr %excinfo, !numba_exception_output !0
  ret i32 1
tail:
  call void @NRT_decref(ptr %list)
  call void @NRT_decref(ptr %popped)
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret i32 0
}

define i32 @alias_in_tail_of_diamond(ptr %x, ptr %y, i1 %c0) {
entry:
  call void @NRT_incref(ptr %x)
  br i1 %c0, label %left, label %tail
left:
  br label %tail
tail:
  call void @NRT_decref(ptr %y)
  %z = load ptr, ptr %x
  call void @NRT_decref(ptr %x)
  ret i32 0
}
!0 = !{i1 true}
