; Sets of refops that cancel out together. Nothing of them is left; `second` keeps the last
; decref, which is of another reference.
declare void @NRT_incref(ptr)
declare void @NRT_decref(ptr)
declare void @use(ptr) readonly
declare i1 @cond() readonly
declare void @callback()
declare void @reads(ptr)
declare ptr @make() readonly
@error = external global i8

; A linked list: each turn takes the next node and releases the last.
define i32 @walk(ptr %excinfo, ptr %head) {
entry:
  call void @NRT_incref(ptr %head)
  br label %loop
loop:
  %at = phi ptr [ %head, %entry ], [ %next, %loop ]
  %next = load ptr, ptr %at
  call void @NRT_incref(ptr %next)
  call void @NRT_decref(ptr %at)
  %more = call i1 @cond()
  br i1 %more, label %loop, label %end
end:
  call void @NRT_decref(ptr %next)
  ret i32 0
}

; A variable that is null before the first turn.
define i32 @variable(ptr %excinfo, ptr %list) {
entry:
  br label %loop
loop:
  %last = phi ptr [ null, %entry ], [ %item, %loop ]
  %item = load ptr, ptr %list
  call void @NRT_incref(ptr %item)
  call void @NRT_decref(ptr %last)
  call void @use(ptr %item)
  %more = call i1 @cond()
  br i1 %more, label %loop, label %end
end:
  call void @NRT_decref(ptr %item)
  ret i32 0
}

; Two values, each of whose releases is in the way of the other.
define i32 @each_other(ptr %excinfo, ptr %list) {
entry:
  %a = load ptr, ptr %list
  %b = load ptr, ptr %list
  call void @NRT_incref(ptr %a)
  br label %more
more:
  call void @NRT_incref(ptr %b)
  call void @NRT_decref(ptr %a)
  br label %end
end:
  call void @use(ptr %b)
  call void @NRT_decref(ptr %b)
  ret i32 0
}

; Around a call that may release: the caller holds the parameter.
define i32 @parameter(ptr %excinfo, ptr %p) {
entry:
  call void @NRT_incref(ptr %p)
  %k = call i1 @cond()
  br i1 %k, label %one, label %two
one:
  call void @callback()
  br label %two
two:
  call void @use(ptr %p)
  call void @NRT_decref(ptr %p)
  ret i32 0
}

; Around a call that may release: the function has a second reference. The memory that lends
; the value to the call gives none away.
define i32 @second(ptr %excinfo, ptr %list) {
entry:
  %place = alloca ptr
  %a = call ptr @make()
  call void @NRT_incref(ptr %a)
  store ptr %a, ptr %place
  %k = call i1 @cond()
  br i1 %k, label %one, label %two
one:
  call void @reads(ptr %place)
  br label %two
two:
  call void @use(ptr %a)
  call void @NRT_decref(ptr %a)
  br label %end
end:
  call void @use(ptr %a)
  call void @NRT_decref(ptr %a)
  ret i32 0
}

; An exception of a callee: it is passed on without a mark, and its references leak.
define i32 @passed_on(ptr %excinfo, ptr %list) {
entry:
  %a = load ptr, ptr %list
  call void @NRT_incref(ptr %a)
  %k = call i1 @cond()
  br i1 %k, label %fails, label %good
fails:
  store ptr @error, ptr %excinfo
  br label %end
good:
  call void @NRT_decref(ptr %a)
  br label %end
end:
  %status = phi i32 [ 1, %fails ], [ 0, %good ]
  ret i32 %status
}
