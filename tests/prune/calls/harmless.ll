; Calls that release nothing, and objects that another reference keeps: every pair goes, or,
; where a comment says so, all but one.
declare void @NRT_incref(ptr)
declare void @NRT_decref(ptr)
declare void @NRT_Free(ptr)
declare void @use(ptr) readonly
declare void @callback()
declare i1 @cond() readonly

define internal void @reads(ptr %p) {
  call void @use(ptr %p)
  ret void
}

define linkonce_odr void @reads_far(ptr %p) {
  %k = call i1 @cond()
  br i1 %k, label %more, label %end
more:
  call void @reads_far(ptr %p)
  br label %end
end:
  call void @reads(ptr %p)
  ret void
}

define void @proved_calls(ptr %box, i1 %c) {
entry:
  %x = load ptr, ptr %box
  call void @NRT_incref(ptr %x)
  call void @reads(ptr %x)
  br i1 %c, label %left, label %end
left:
  call void @reads_far(ptr %x)
  br label %end
end:
  call void @NRT_Free(ptr null)
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret void
}

define void @parameter(ptr %x, i1 %c) {
entry:
  call void @NRT_incref(ptr %x)
  call void @callback()
  br i1 %c, label %left, label %end
left:
  call void @callback()
  br label %end
end:
  call void @callback()
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret void
}

; The reference around both calls stays.
define void @second_reference(ptr %box, i1 %c) {
entry:
  %x = load ptr, ptr %box
  call void @NRT_incref(ptr %x)
  call void @callback()
  call void @NRT_incref(ptr %x)
  br i1 %c, label %left, label %end
left:
  call void @callback()
  call void @use(ptr %x)
  br label %end
end:
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret void
}
