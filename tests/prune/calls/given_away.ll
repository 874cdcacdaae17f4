; A pair that llvmlite's rules do not take, and that would be wrong to take.
declare void @NRT_incref(ptr)
declare void @NRT_decref(ptr)
declare void @callback()
@kept = external global ptr

; The reference of the first incref is given to another owner, which releases it. Its pair with
; the decref of the second incref would leave that reference uncounted.
define void @stored_before_the_callback(ptr %x, i1 %c) {
entry:
  call void @NRT_incref(ptr %x)
  br i1 %c, label %give, label %end
give:
  store ptr %x, ptr @kept
  call void @callback()
  br label %again
again:
  call void @NRT_incref(ptr %x)
  br i1 %c, label %left, label %right
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
