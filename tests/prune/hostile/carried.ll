; Functions that try to lead the shape `carried` astray. The interpreter judges all of them.
declare void @NRT_incref(ptr)
declare void @NRT_decref(ptr)
declare void @use(ptr) readonly
declare i1 @cond() readonly
declare void @callback()
declare ptr @make() readonly
declare ptr @get() readonly
declare i32 @personality(...)
@error = external global i8
@kept = external global ptr

; The decref of another value is invoked: it is no refop for the pruner, but it releases.
define i32 @invoked_decref(ptr %excinfo, ptr %list) personality ptr @personality {
entry:
  %y = call ptr @get()
  %x = load ptr, ptr %list
  call void @NRT_incref(ptr %x)
  invoke void @NRT_decref(ptr %y) to label %good unwind label %bad
good:
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret i32 0
bad:
  %pad = landingpad { ptr, i32 } cleanup
  call void @NRT_decref(ptr %x)
  ret i32 0
}

; Two phis take over one reference each, one loop later they have changed places.
define i32 @swapped(ptr %excinfo, ptr %list) {
entry:
  %x = load ptr, ptr %list
  %y = load ptr, ptr %list
  call void @NRT_incref(ptr %x)
  call void @NRT_incref(ptr %y)
  br label %loop
loop:
  %a = phi ptr [ %x, %entry ], [ %b, %loop ]
  %b = phi ptr [ %y, %entry ], [ %a, %loop ]
  call void @use(ptr %a)
  %k = call i1 @cond()
  br i1 %k, label %loop, label %end
end:
  call void @NRT_decref(ptr %a)
  call void @callback()
  call void @use(ptr %b)
  call void @NRT_decref(ptr %b)
  ret i32 0
}

; Both phis merge the same value; a loop may have no turn.
define i32 @same_twice(ptr %excinfo, ptr %list) {
entry:
  %x = load ptr, ptr %list
  call void @NRT_incref(ptr %x)
  call void @NRT_incref(ptr %x)
  %k = call i1 @cond()
  br i1 %k, label %loop, label %end
loop:
  %a = phi ptr [ %x, %entry ], [ %next, %loop ]
  %b = phi ptr [ %x, %entry ], [ %b, %loop ]
  %next = load ptr, ptr %a
  call void @NRT_incref(ptr %next)
  call void @NRT_decref(ptr %a)
  %more = call i1 @cond()
  br i1 %more, label %loop, label %out
out:
  call void @NRT_decref(ptr %next)
  call void @use(ptr %b)
  call void @NRT_decref(ptr %b)
  ret i32 0
end:
  call void @NRT_decref(ptr %x)
  call void @NRT_decref(ptr %x)
  ret i32 0
}

; One edge brings nothing, one undef, and a switch has the same edge twice.
define i32 @nothing_merged(ptr %excinfo, ptr %list, i32 %n) {
entry:
  %x = load ptr, ptr %list
  call void @NRT_incref(ptr %x)
  switch i32 %n, label %none [ i32 0, label %join
                               i32 1, label %join
                               i32 2, label %other ]
none:
  call void @NRT_decref(ptr %x)
  br label %join
other:
  %y = call ptr @get()
  call void @NRT_decref(ptr %x)
  br label %join
join:
  %p = phi ptr [ %x, %entry ], [ %x, %entry ], [ null, %none ], [ %y, %other ]
  call void @use(ptr %p)
  call void @NRT_decref(ptr %p)
  ret i32 0
}

; More references than the pruner counts.
define i32 @many(ptr %excinfo, ptr %list) {
entry:
  %x = load ptr, ptr %list
  call void @NRT_incref(ptr %x)
  call void @NRT_incref(ptr %x)
  call void @NRT_incref(ptr %x)
  call void @NRT_incref(ptr %x)
  call void @NRT_incref(ptr %x)
  call void @NRT_incref(ptr %x)
  call void @NRT_incref(ptr %x)
  call void @NRT_incref(ptr %x)
  call void @NRT_incref(ptr %x)
  call void @callback()
  br label %next
next:
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  call void @NRT_decref(ptr %x)
  call void @NRT_decref(ptr %x)
  call void @callback()
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  call void @NRT_decref(ptr %x)
  call void @NRT_decref(ptr %x)
  call void @NRT_decref(ptr %x)
  call void @NRT_decref(ptr %x)
  call void @callback()
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret i32 0
}

; The reference of the phi goes to an owner where the path raises.
define i32 @phi_stored_at_raise(ptr %excinfo, ptr %list) {
entry:
  %x = load ptr, ptr %list
  call void @NRT_incref(ptr %x)
  br label %loop
loop:
  %at = phi ptr [ %x, %entry ], [ %next, %good ]
  %next = load ptr, ptr %at
  call void @NRT_incref(ptr %next)
  %k = call i1 @cond()
  br i1 %k, label %bad, label %good
bad:
  store ptr @error, ptr %excinfo, !numba_exception_output !0
  store ptr %at, ptr @kept
  ret i32 1
good:
  call void @NRT_decref(ptr %at)
  %more = call i1 @cond()
  br i1 %more, label %loop, label %end
end:
  call void @NRT_decref(ptr %next)
  ret i32 0
}

; The same where no other path merges the phi.
define i32 @stored_as_phi(ptr %excinfo, ptr %list) {
entry:
  %x = load ptr, ptr %list
  call void @NRT_incref(ptr %x)
  %k = call i1 @cond()
  br i1 %k, label %bad, label %good
bad:
  %y = phi ptr [ %x, %entry ]
  call void @NRT_incref(ptr %y)
  store ptr @error, ptr %excinfo, !numba_exception_output !0
  store ptr %y, ptr @kept
  call void @NRT_decref(ptr %y)
  ret i32 1
good:
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret i32 0
}

; A raise goes back into the loop, and another value is released there.
define i32 @raise_goes_back(ptr %excinfo, ptr %list) {
entry:
  br label %loop
loop:
  %y = call ptr @get()
  %x = load ptr, ptr %list
  call void @NRT_incref(ptr %x)
  %k = call i1 @cond()
  br i1 %k, label %bad, label %good
bad:
  store ptr @error, ptr %excinfo, !numba_exception_output !0
  br label %more
good:
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  br label %more
more:
  call void @NRT_decref(ptr %y)
  %again = call i1 @cond()
  br i1 %again, label %loop, label %end
end:
  ret i32 0
}

; A loop with two entries.
define i32 @irreducible(ptr %excinfo, ptr %list) {
entry:
  %x = load ptr, ptr %list
  call void @NRT_incref(ptr %x)
  %k = call i1 @cond()
  br i1 %k, label %one, label %two
one:
  %a = phi ptr [ %x, %entry ], [ %b, %two ]
  %y = load ptr, ptr %a
  call void @NRT_incref(ptr %y)
  call void @NRT_decref(ptr %a)
  br label %two
two:
  %b = phi ptr [ %x, %entry ], [ %y, %one ]
  call void @use(ptr %b)
  %more = call i1 @cond()
  br i1 %more, label %one, label %end
end:
  call void @callback()
  call void @use(ptr %b)
  call void @NRT_decref(ptr %b)
  ret i32 0
}

; An alias owns the object: it is released in the same row of decrefs, and before a use.
define i32 @alias_released(ptr %excinfo, ptr %list) {
entry:
  %old = load ptr, ptr %list, !moves !1
  %x = load ptr, ptr %old
  call void @NRT_incref(ptr %x)
  %k = call i1 @cond()
  br i1 %k, label %row, label %used
row:
  call void @NRT_decref(ptr %old)
  call void @NRT_decref(ptr %x)
  ret i32 0
used:
  call void @NRT_decref(ptr %old)
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret i32 0
}

; The old item of a slot is released: the function did not count its reference.
define i32 @replaced(ptr %excinfo, ptr %list, ptr %new) {
entry:
  %x = load ptr, ptr %list
  call void @NRT_incref(ptr %x)
  br label %set
set:
  %old = load ptr, ptr %list, !moves !1
  call void @NRT_incref(ptr %new)
  store ptr %new, ptr %list, !moves !1
  call void @NRT_decref(ptr %old)
  br label %end
end:
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret i32 0
}

; Around a call: the second reference is given away before, the third stays.
define i32 @second_is_gone(ptr %excinfo, ptr %list) {
entry:
  %x = load ptr, ptr %list
  call void @NRT_incref(ptr %x)
  call void @NRT_incref(ptr %x)
  br label %give
give:
  store ptr %x, ptr @kept
  call void @callback()
  br label %end
end:
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret i32 0
}

; The same through a phi: the reference that goes away has another name.
define i32 @phi_is_gone(ptr %excinfo, ptr %list) {
entry:
  %x = load ptr, ptr %list
  call void @NRT_incref(ptr %x)
  call void @NRT_incref(ptr %x)
  %k = call i1 @cond()
  br i1 %k, label %none, label %give
none:
  br label %give
give:
  %y = phi ptr [ %x, %entry ], [ %x, %none ]
  call void @NRT_incref(ptr %y)
  store ptr %y, ptr @kept
  call void @NRT_decref(ptr %y)
  call void @callback()
  br label %end
end:
  call void @use(ptr %x)
  call void @NRT_decref(ptr %x)
  ret i32 0
}

; A block that no path reaches merges a value.
define i32 @from_nowhere(ptr %excinfo, ptr %list) {
entry:
  %x = load ptr, ptr %list
  call void @NRT_incref(ptr %x)
  br label %join
nowhere:
  %z = load ptr, ptr %list
  call void @NRT_decref(ptr %z)
  br label %join
join:
  %p = phi ptr [ %x, %entry ], [ %z, %nowhere ]
  call void @callback()
  call void @use(ptr %p)
  call void @NRT_decref(ptr %p)
  ret i32 0
}

; Volatile and atomic accesses see no count, but a fence ends a row.
define i32 @fenced(ptr %excinfo, ptr %list) {
entry:
  %y = call ptr @get()
  %x = load volatile ptr, ptr %list
  call void @NRT_incref(ptr %x)
  br label %end
end:
  call void @NRT_decref(ptr %y)
  fence seq_cst
  %z = load atomic ptr, ptr %x seq_cst, align 8
  call void @NRT_decref(ptr %x)
  ret i32 0
}
!0 = !{i1 true}
!1 = !{}
