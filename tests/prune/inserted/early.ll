; The reference for the loop is released too early.
declare void @NRT_incref(ptr)
declare void @NRT_decref(ptr)
declare void @use(ptr) readonly
declare void @callback()

define void @walk(ptr %box, i1 %c) {
entry:
  %x = load ptr, ptr %box
  call void @NRT_incref(ptr %x)
  br label %loop
loop:
  call void @NRT_decref(ptr %x)
  call void @callback()
  call void @use(ptr %x)
  br i1 %c, label %loop, label %end
end:
  ret void
}
