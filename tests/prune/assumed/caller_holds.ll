; What breaks if a caller does not hold what it passes: the pair of the parameter goes, and the
; callback releases the last reference.
declare void @NRT_incref(ptr)
declare void @NRT_decref(ptr)
declare void @use(ptr) readonly
declare void @callback()

define internal void @callee(ptr %x) {
  call void @NRT_incref(ptr %x)
  call void @callback()
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret void
}

define void @passes_what_it_does_not_hold(ptr %box) {
  %x = load ptr, ptr %box
  call void @callee(ptr %x)
  ret void
}
