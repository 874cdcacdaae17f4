; What breaks if a thread uses an object to which another thread holds the only reference: the
; pair goes, and the other thread releases. @other_thread stands for what that one does then.
declare void @NRT_incref(ptr)
declare void @NRT_decref(ptr)
declare void @use(ptr) readonly
declare void @other_thread() readonly

define void @borrows_from_another_thread(ptr %box) {
  %x = load ptr, ptr %box
  call void @NRT_incref(ptr %x)
  call void @other_thread()
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret void
}
