# Writes a C file with the script and the style of the page: cmake -P with FOLDER and OUT.
#
# page/order.txt lists the files of the script in their order. Without it both are empty,
# and the page is what the command writes without a script.

function(embed name text)
  string(HEX "${text}" hex)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "((0x..,){16})" "\\1\n    " bytes "${bytes}")
  string(LENGTH "${text}" count)
  file(APPEND ${OUT}.new "const unsigned char page_${name}[] = {\n    ${bytes}0};\n"
    "const size_t page_${name}_bytes = sizeof page_${name} - 1;\n")
endfunction()

set(script "")
set(style "")
if(EXISTS ${FOLDER}/page/order.txt)
  file(STRINGS ${FOLDER}/page/order.txt names)
  foreach(name ${names})
    file(READ ${FOLDER}/page/${name} text)
    string(APPEND script "${text}\n")
  endforeach()
endif()
if(EXISTS ${FOLDER}/page.css)
  file(READ ${FOLDER}/page.css style)
endif()
file(WRITE ${OUT}.new "/* made by cli/report/embed.cmake */\n#include \"page_files.h\"\n")
embed(script "${script}")
embed(style "${style}")
file(RENAME ${OUT}.new ${OUT})
