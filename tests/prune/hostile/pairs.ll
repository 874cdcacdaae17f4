; Functions that try to lead the shapes for pairs astray, and `carried` with them. Each satisfies
; the assumptions of docs/design/prune.md, so the interpreter judges all of them.
declare void @NRT_incref(ptr)
declare void @NRT_decref(ptr)
declare void @NRT_MemInfo_release(ptr)
declare void @use(ptr) readonly
declare i1 @cond() readonly
declare void @callback()
declare ptr @make() readonly
declare ptr @get() readonly
declare i32 @personality(...)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
@error = external global i8
@kept = external global ptr

; --- phis that take a reference over

; A phi takes one of two references over and gives it away. The other path releases both.
define void @phi_gives_away() {
entry:
  %x = call ptr @make()
  call void @NRT_incref(ptr %x)
  %k = call i1 @cond()
  br i1 %k, label %two, label %give
two:
  call void @NRT_decref(ptr %x)
  call void @NRT_decref(ptr %x)
  ret void
give:
  %p = phi ptr [ %x, %entry ]
  store ptr %p, ptr @kept
  call void @callback()
  br label %last
last:
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret void
}

; The same by a phi of that phi.
define void @second_phi_gives_away() {
entry:
  %x = call ptr @make()
  call void @NRT_incref(ptr %x)
  %k = call i1 @cond()
  br i1 %k, label %two, label %take
two:
  call void @NRT_decref(ptr %x)
  call void @NRT_decref(ptr %x)
  ret void
take:
  %p = phi ptr [ %x, %entry ]
  br label %give
give:
  %q = phi ptr [ %p, %take ]
  store ptr %q, ptr @kept
  call void @callback()
  br label %last
last:
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret void
}

; The phi gives the only counted reference of a parameter away, and another is taken later.
define void @phi_of_parameter_gives_away(ptr %x) {
entry:
  call void @NRT_incref(ptr %x)
  %k = call i1 @cond()
  br i1 %k, label %give, label %end
give:
  %p = phi ptr [ %x, %entry ]
  store ptr %p, ptr @kept
  call void @callback()
  br label %again
again:
  call void @NRT_incref(ptr %x)
  br i1 %k, label %left, label %right
left:
  br label %last
right:
  br label %last
last:
  call void @NRT_decref(ptr %x)
  ret void
end:
  call void @NRT_decref(ptr %x)
  ret void
}

; The phi of a loop gives a reference away in each turn.
define void @loop_gives_away(ptr %list) {
entry:
  %x = call ptr @make()
  call void @NRT_incref(ptr %x)
  %k = call i1 @cond()
  br i1 %k, label %two, label %loop
two:
  call void @NRT_decref(ptr %x)
  call void @NRT_decref(ptr %x)
  ret void
loop:
  %p = phi ptr [ %x, %entry ], [ %next, %loop ]
  store ptr %p, ptr @kept
  %next = load ptr, ptr %list
  call void @NRT_incref(ptr %next)
  call void @callback()
  %more = call i1 @cond()
  br i1 %more, label %loop, label %last
last:
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  call void @NRT_decref(ptr %next)
  ret void
}

; The phi puts the reference into an object that is released.
define void @phi_puts_into_object(ptr %list) {
entry:
  %x = call ptr @get()
  call void @NRT_incref(ptr %x)
  %k = call i1 @cond()
  br i1 %k, label %two, label %give
two:
  call void @NRT_decref(ptr %x)
  call void @NRT_decref(ptr %x)
  ret void
give:
  %p = phi ptr [ %x, %entry ]
  store ptr %p, ptr %list, !moves !1
  call void @callback()
  br label %last
last:
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret void
}

; --- other names for one object

; Another argument may be the same object: a callee releases what that one holds.
define internal void @drop(ptr %box) noinline {
  %old = load ptr, ptr %box, !moves !1
  call void @NRT_decref(ptr %old)
  ret void
}
define void @two_arguments(ptr %box, ptr %same) {
entry:
  %x = load ptr, ptr %box
  call void @NRT_incref(ptr %x)
  br label %next
next:
  call void @drop(ptr %same)
  br label %end
end:
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret void
}

; A select is one of two values, both of which are released first.
define void @selected(i1 %c) {
entry:
  %x = call ptr @get()
  %y = call ptr @get()
  %s = select i1 %c, ptr %x, ptr %y
  call void @NRT_incref(ptr %s)
  br label %next
next:
  call void @NRT_decref(ptr %x)
  call void @NRT_decref(ptr %y)
  call void @use(ptr %s)
  br label %end
end:
  call void @NRT_decref(ptr %s)
  ret void
}

; An address that was a number may be any object.
define void @from_a_number(i64 %n) {
entry:
  %x = call ptr @get()
  %s = inttoptr i64 %n to ptr
  call void @NRT_incref(ptr %s)
  br label %next
next:
  call void @NRT_decref(ptr %x)
  call void @use(ptr %s)
  call void @NRT_decref(ptr %s)
  ret void
}

; An address in the object, at its start.
define void @at_its_start() {
entry:
  %x = call ptr @make()
  %s = getelementptr i8, ptr %x, i64 0
  call void @NRT_incref(ptr %s)
  br label %next
next:
  call void @NRT_decref(ptr %x)
  call void @callback()
  call void @use(ptr %s)
  call void @NRT_decref(ptr %s)
  ret void
}

; A frozen name.
define void @frozen() {
entry:
  %x = call ptr @make()
  %s = freeze ptr %x
  call void @NRT_incref(ptr %s)
  br label %next
next:
  call void @NRT_decref(ptr %x)
  call void @use(ptr %s)
  br label %end
end:
  call void @NRT_decref(ptr %s)
  ret void
}

; A copy on the stack of the caller's memory: the caller does not hold what is in it.
define void @by_value(ptr byval(ptr) %copy) {
entry:
  %x = load ptr, ptr %copy
  call void @NRT_incref(ptr %x)
  call void @callback()
  br label %end
end:
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret void
}

; The reference goes to another owner by a copy of memory.
define i32 @copied_memory(ptr %excinfo, ptr %list) {
entry:
  %slot = alloca ptr
  %x = load ptr, ptr %list
  call void @NRT_incref(ptr %x)
  store ptr %x, ptr %slot
  %k = call i1 @cond()
  br i1 %k, label %bad, label %good
bad:
  store ptr @error, ptr %excinfo, !numba_exception_output !0
  call void @llvm.memcpy.p0.p0.i64(ptr @kept, ptr %slot, i64 8, i1 false)
  store ptr %x, ptr @kept
  ret i32 1
good:
  call void @NRT_decref(ptr %x)
  ret i32 0
}

; --- calls

; The call unwinds: both ways release.
define void @invoked_callback(ptr %box) personality ptr @personality {
entry:
  %x = load ptr, ptr %box
  call void @NRT_incref(ptr %x)
  invoke void @callback() to label %good unwind label %bad
good:
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret void
bad:
  %pad = landingpad { ptr, i32 } cleanup
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  resume { ptr, i32 } %pad
}

; An invoked decref releases one of three references, a callback those of others.
define void @invoked_decref_of_itself() personality ptr @personality {
entry:
  %x = call ptr @get()
  call void @NRT_incref(ptr %x)
  invoke void @NRT_decref(ptr %x) to label %good unwind label %bad
good:
  call void @callback()
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret void
bad:
  %pad = landingpad { ptr, i32 } cleanup
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  resume { ptr, i32 } %pad
}

; An invoked call returns the value; a phi merges it on both ways.
define void @invoked_result(ptr %list) personality ptr @personality {
entry:
  %y = load ptr, ptr %list
  call void @NRT_incref(ptr %y)
  %x = invoke ptr @make() to label %good unwind label %bad
good:
  br label %join
bad:
  %pad = landingpad { ptr, i32 } cleanup
  call void @NRT_incref(ptr %y)
  br label %join
join:
  %p = phi ptr [ %x, %good ], [ %y, %bad ]
  call void @callback()
  call void @use(ptr %y)
  call void @NRT_decref(ptr %y)
  call void @use(ptr %p)
  call void @NRT_decref(ptr %p)
  ret void
}

; A call through a table.
define void @through_a_table(ptr %table, ptr %box, i64 %n) {
entry:
  %x = load ptr, ptr %box
  %slot = getelementptr ptr, ptr %table, i64 %n
  %f = load ptr, ptr %slot
  call void @NRT_incref(ptr %x)
  br label %next
next:
  call void %f(ptr %x)
  br label %end
end:
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret void
}

; A function that calls itself around its own pair.
define void @calls_itself(ptr %box) {
entry:
  %x = load ptr, ptr %box
  call void @NRT_incref(ptr %x)
  %k = call i1 @cond()
  br i1 %k, label %more, label %end
more:
  call void @drop(ptr %box)
  call void @calls_itself(ptr %box)
  br label %end
end:
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret void
}

; Two functions that call each other; only the other one releases.
define void @first_of_two(ptr %box) {
entry:
  %x = load ptr, ptr %box
  call void @NRT_incref(ptr %x)
  call void @second_of_two(ptr %box)
  br label %end
end:
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret void
}
define void @second_of_two(ptr %box) {
entry:
  %k = call i1 @cond()
  br i1 %k, label %more, label %end
more:
  call void @first_of_two(ptr %box)
  br label %end
end:
  call void @drop(ptr %box)
  ret void
}

; The function hands over to another one, as a tail call.
define void @tail(ptr %box) {
entry:
  %x = load ptr, ptr %box
  call void @NRT_incref(ptr %x)
  call void @callback()
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  musttail call void @drop(ptr %box)
  ret void
}

; --- second references

; The other reference is released before the call, on one of two paths.
define void @second_released_on_one_path(i1 %c) {
entry:
  %x = call ptr @make()
  call void @NRT_incref(ptr %x)
  br i1 %c, label %one, label %two
one:
  call void @NRT_decref(ptr %x)
  call void @callback()
  br label %join
two:
  call void @callback()
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  br label %join
join:
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret void
}

; In each turn of a loop one reference is given away and another taken.
define void @given_in_a_loop() {
entry:
  %x = call ptr @make()
  call void @NRT_incref(ptr %x)
  br label %loop
loop:
  call void @NRT_incref(ptr %x)
  store ptr %x, ptr @kept
  call void @callback()
  %more = call i1 @cond()
  br i1 %more, label %loop, label %end
end:
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret void
}

; The old item of a slot moves into the function, the callback releases the new one.
define void @moved_out(ptr %list, ptr %new) {
entry:
  %old = load ptr, ptr %list, !moves !1
  call void @NRT_incref(ptr %old)
  call void @NRT_incref(ptr %new)
  store ptr %new, ptr %list, !moves !1
  call void @callback()
  br label %end
end:
  call void @use(ptr %old)
  call void @NRT_decref(ptr %old)
  call void @callback()
  call void @use(ptr %old)
  call void @NRT_decref(ptr %old)
  ret void
}

; --- raises

; A raise is caught, and the next turn of the loop gives the reference away.
define i32 @kept_in_the_next_turn(ptr %excinfo, ptr %x) {
entry:
  call void @NRT_incref(ptr %x)
  br label %loop
loop:
  %caught = phi i1 [ false, %entry ], [ true, %bad ]
  %k = call i1 @cond()
  br i1 %k, label %bad, label %next
bad:
  store ptr @error, ptr %excinfo, !numba_exception_output !0
  br label %loop
next:
  br i1 %caught, label %give, label %good
give:
  store ptr %x, ptr @kept
  ret i32 0
good:
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret i32 0
}

; The phi behind the raise gives the reference away.
define i32 @phi_behind_the_raise(ptr %excinfo, ptr %x) {
entry:
  call void @NRT_incref(ptr %x)
  %k = call i1 @cond()
  br i1 %k, label %bad, label %good
bad:
  store ptr @error, ptr %excinfo, !numba_exception_output !0
  br label %handler
handler:
  %p = phi ptr [ %x, %bad ]
  br label %last
last:
  %q = phi ptr [ %p, %handler ]
  store ptr %q, ptr @kept
  ret i32 0
good:
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret i32 0
}

; A landing pad raises, and gives the reference away.
define i32 @kept_by_the_landing_pad(ptr %excinfo, ptr %x) personality ptr @personality {
entry:
  call void @NRT_incref(ptr %x)
  invoke void @use(ptr %x) to label %good unwind label %bad
good:
  call void @NRT_decref(ptr %x)
  ret i32 0
bad:
  %pad = landingpad { ptr, i32 } cleanup
  store ptr @error, ptr %excinfo, !numba_exception_output !0
  store ptr %x, ptr @kept
  ret i32 1
}

; The callback behind the raise releases what others hold, and the value is used there.
define i32 @used_behind_the_raise(ptr %excinfo, ptr %box) {
entry:
  %x = load ptr, ptr %box
  call void @NRT_incref(ptr %x)
  %k = call i1 @cond()
  br i1 %k, label %bad, label %good
bad:
  store ptr @error, ptr %excinfo, !numba_exception_output !0
  br label %handler
handler:
  call void @callback()
  call void @use(ptr %x)
  ret i32 1
good:
  call void @NRT_decref(ptr %x)
  ret i32 0
}

; Two references on the path that raises: one is given away, one is passed to a callee.
define i32 @one_of_two_kept(ptr %excinfo) {
entry:
  %x = call ptr @get()
  call void @NRT_incref(ptr %x)
  %k = call i1 @cond()
  br i1 %k, label %bad, label %good
bad:
  store ptr @error, ptr %excinfo, !numba_exception_output !0
  store ptr %x, ptr @kept
  call void @callback()
  call void @use(ptr %x)
  ret i32 1
good:
  call void @NRT_decref(ptr %x)
  br label %end
end:
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret i32 0
}
!0 = !{i1 true}
!1 = !{}
