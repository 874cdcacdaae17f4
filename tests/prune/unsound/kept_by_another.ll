; A reference is transferred to another owner: the store to @kept. A path that raises loses
; the function's own references, but the transferred one is not the function's any more.
declare void @NRT_incref(ptr)
declare void @NRT_decref(ptr)
@error = external global i8
@kept = external global ptr

; One reference is the name's, one is kept, and the two decrefs are for the name's and for
; the one that is taken behind the first raise. llvmlite's pass removes the first two.
define i32 @taken_again(ptr %excinfo, ptr %a, i1 %c, i1 %d) {
entry:
  call void @NRT_incref(ptr %a)
  call void @NRT_incref(ptr %a)
  store ptr %a, ptr @kept
  br i1 %c, label %raise, label %again
again:
  call void @NRT_incref(ptr %a)
  br i1 %d, label %raise, label %end
raise:
  store ptr @error, ptr %excinfo, !numba_exception_output !0
  ret i32 1
end:
  call void @NRT_decref(ptr %a)
  call void @NRT_decref(ptr %a)
  ret i32 0
}

; The path that raises releases the name's reference, and takes one that is kept. Once that
; pair is removed, the name's is the one that is kept.
define i32 @given_back(ptr %excinfo, ptr %a, i1 %c) {
entry:
  call void @NRT_incref(ptr %a)
  br i1 %c, label %left, label %end
left:
  call void @NRT_incref(ptr %a)
  store ptr %a, ptr @kept
  call void @NRT_decref(ptr %a)
  br label %raise
raise:
  store ptr @error, ptr %excinfo, !numba_exception_output !0
  ret i32 1
end:
  call void @NRT_decref(ptr %a)
  ret i32 0
}

!0 = !{i1 true}
