; The incref is repeated before the one decref: each iteration keeps a reference in another
; place (a list, for example), and only the last name of the object is released. The incref
; dominates the decref and the decref postdominates the incref, but they are no pair.
declare void @NRT_incref(ptr)
declare void @NRT_decref(ptr)

define i32 @head_in_loop_of_one_block(ptr %p, i1 %c0) {
entry:
  br label %loop
loop:
  call void @NRT_incref(ptr %p)
  br i1 %c0, label %loop, label %after
after:
  call void @NRT_decref(ptr %p)
  ret i32 0
}

define i32 @head_in_loop_of_two_blocks(ptr %p, i1 %c0) {
entry:
  br label %loop
loop:
  call void @NRT_incref(ptr %p)
  br i1 %c0, label %again, label %after
again:
  br label %loop
after:
  call void @NRT_decref(ptr %p)
  ret i32 0
}
