; The same with one reference for the whole loop, which new refops count.
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
  call void @callback()
  call void @use(ptr %x)
  br i1 %c, label %loop, label %end
end:
  call void @NRT_decref(ptr %x)
  ret void
}
