; A call releases the reference of another owner, as a callback does that replaces a field.
; `%x` is what the field held, so only the pair keeps it.
declare void @NRT_incref(ptr)
declare void @NRT_decref(ptr)
declare void @NRT_MemInfo_release(ptr)
declare void @use(ptr) readonly
declare void @callback()
declare i1 @cond() readonly
declare i32 @personality(...)
@error = external global i8

; --- per block

define void @callback_in_one_block(ptr %box) {
  %x = load ptr, ptr %box
  call void @NRT_incref(ptr %x)
  call void @callback()
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret void
}

define void @call_through_a_pointer(ptr %box, ptr %f) {
  %x = load ptr, ptr %box
  call void @NRT_incref(ptr %x)
  call void %f(ptr %box)
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret void
}

define void @release_by_the_runtime(ptr %box) {
  %x = load ptr, ptr %box
  call void @NRT_incref(ptr %x)
  call void @NRT_MemInfo_release(ptr %box)
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret void
}

define internal void @drop(ptr %box) noinline {
  %old = load ptr, ptr %box
  call void @NRT_decref(ptr %old)
  ret void
}

define internal void @drop_far(ptr %box) noinline {
  %k = call i1 @cond()
  br i1 %k, label %more, label %end
more:
  call void @drop_far(ptr %box)
  br label %end
end:
  call void @drop(ptr %box)
  ret void
}

define void @callee_of_the_module(ptr %box) {
  %x = load ptr, ptr %box
  call void @NRT_incref(ptr %x)
  call void @drop(ptr %box)
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret void
}

define void @recursive_callee(ptr %box) {
  %x = load ptr, ptr %box
  call void @NRT_incref(ptr %x)
  call void @drop_far(ptr %box)
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret void
}

define weak void @can_be_replaced(ptr %box) {
  call void @use(ptr %box)
  ret void
}

define void @callee_that_the_linker_replaces(ptr %box) {
  %x = load ptr, ptr %box
  call void @NRT_incref(ptr %x)
  call void @can_be_replaced(ptr %box)
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret void
}

; --- across blocks

define void @callback_behind_the_incref(ptr %box, i1 %c) {
entry:
  %x = load ptr, ptr %box
  call void @NRT_incref(ptr %x)
  call void @callback()
  br i1 %c, label %left, label %end
left:
  call void @use(ptr %x)
  br label %end
end:
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret void
}

define void @callback_on_one_path(ptr %box, i1 %c) {
entry:
  %x = load ptr, ptr %box
  call void @NRT_incref(ptr %x)
  br i1 %c, label %left, label %right
left:
  call void @callback()
  br label %end
right:
  call void @NRT_decref(ptr %x)
  ret void
end:
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret void
}

define void @callback_before_the_decref(ptr %box, i1 %c) {
entry:
  %x = load ptr, ptr %box
  call void @NRT_incref(ptr %x)
  br i1 %c, label %left, label %end
left:
  br label %end
end:
  call void @callback()
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret void
}

define i32 @callback_behind_a_raise(ptr %excinfo, ptr %box, i1 %c) {
entry:
  %x = load ptr, ptr %box
  call void @NRT_incref(ptr %x)
  br i1 %c, label %raise, label %end
raise:
  store ptr @error, ptr %excinfo, !numba_exception_output !0
  br label %handler
handler:
  call void @callback()
  call void @use(ptr %x)
  ret i32 1
end:
  call void @NRT_decref(ptr %x)
  ret i32 0
}

define void @invoked_decref(ptr %x, ptr %y) personality ptr @personality {
entry:
  %box = load ptr, ptr %x
  call void @NRT_incref(ptr %box)
  invoke void @NRT_decref(ptr %y) to label %good unwind label %pad
good:
  call void @use(ptr %box)
  call void @NRT_decref(ptr %box)
  ret void
pad:
  %l = landingpad { ptr, i32 } cleanup
  call void @NRT_decref(ptr %box)
  resume { ptr, i32 } %l
}
!0 = !{i1 true}
