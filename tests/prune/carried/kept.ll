; Sets of refops that would cancel out, but for one rule each. All of them are left.
declare void @NRT_incref(ptr)
declare void @NRT_decref(ptr)
declare void @use(ptr) readonly
declare i1 @cond() readonly
declare void @callback()
@error = external global i8
@kept = external global ptr

; A call in the loop may release the reference of the list.
define i32 @call_in_loop(ptr %excinfo, ptr %list) {
entry:
  br label %loop
loop:
  %last = phi ptr [ null, %entry ], [ %item, %loop ]
  call void @use(ptr %last)
  %item = load ptr, ptr %list
  call void @NRT_incref(ptr %item)
  call void @NRT_decref(ptr %last)
  call void @callback()
  %more = call i1 @cond()
  br i1 %more, label %loop, label %end
end:
  call void @use(ptr %item)
  call void @NRT_decref(ptr %item)
  ret i32 0
}

; Another value is released in the loop: it may own the node.
define i32 @release_in_loop(ptr %excinfo, ptr %list, ptr %other) {
entry:
  br label %loop
loop:
  %last = phi ptr [ null, %entry ], [ %item, %loop ]
  %item = load ptr, ptr %list
  call void @NRT_incref(ptr %item)
  call void @NRT_decref(ptr %last)
  call void @NRT_decref(ptr %other)
  call void @use(ptr %item)
  %more = call i1 @cond()
  br i1 %more, label %loop, label %end
end:
  call void @NRT_decref(ptr %item)
  ret i32 0
}

; On one of the edges the phi has no reference of its own.
define i32 @borrowed(ptr %excinfo, ptr %list) {
entry:
  %a = load ptr, ptr %list
  %k = call i1 @cond()
  br i1 %k, label %taken, label %join
taken:
  %b = load ptr, ptr %list
  call void @NRT_incref(ptr %b)
  br label %join
join:
  %c = phi ptr [ %a, %entry ], [ %b, %taken ]
  call void @NRT_decref(ptr %c)
  ret i32 0
}

; The reference goes to another owner where it raises.
define i32 @stored(ptr %excinfo, ptr %list) {
entry:
  %a = load ptr, ptr %list
  call void @NRT_incref(ptr %a)
  store ptr %a, ptr @kept
  %k = call i1 @cond()
  br i1 %k, label %fails, label %good
fails:
  store ptr @error, ptr %excinfo
  ret i32 1
good:
  call void @NRT_decref(ptr %a)
  ret i32 0
}

; The path does not raise, although it leaks the same.
define i32 @no_raise(ptr %excinfo, ptr %list) {
entry:
  %a = load ptr, ptr %list
  call void @NRT_incref(ptr %a)
  %k = call i1 @cond()
  br i1 %k, label %leaks, label %good
leaks:
  store ptr @error, ptr %excinfo
  ret i32 0
good:
  call void @NRT_decref(ptr %a)
  ret i32 0
}

; The memory is read again: the reference may go on under another name.
define i32 @read_again(ptr %excinfo, ptr %list) {
entry:
  %place = alloca ptr
  %a = load ptr, ptr %list
  call void @NRT_incref(ptr %a)
  store ptr %a, ptr %place
  %k = call i1 @cond()
  br i1 %k, label %fails, label %good
fails:
  %again = load ptr, ptr %place
  call void @use(ptr %again)
  store ptr @error, ptr %excinfo
  ret i32 1
good:
  call void @NRT_decref(ptr %a)
  ret i32 0
}
