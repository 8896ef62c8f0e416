# A room is one folder of src/: a static library with its unit tests beside the code.
#
#   waybill_room(text SOURCES utf8.cc … LINKS waybill_core … TESTS utf8_test.cc …)
#
# gives the library waybill_text and, when there are tests, the test program waybill_text_test.

function(waybill_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;LINKS;TESTS;TEST_LINKS" ${ARGN})
  add_library(waybill_${name} STATIC ${ROOM_SOURCES})
  target_link_libraries(waybill_${name} PUBLIC waybill_options ${ROOM_LINKS})
  if(ROOM_TESTS)
    waybill_test(waybill_${name}_test SOURCES ${ROOM_TESTS} LINKS waybill_${name} ${ROOM_TEST_LINKS})
  endif()
endfunction()

# A GoogleTest program whose cases CTest lists one by one.
function(waybill_test name)
  cmake_parse_arguments(T "" "TIMEOUT" "SOURCES;LINKS;LABELS" ${ARGN})
  add_executable(${name} ${T_SOURCES})
  target_link_libraries(${name} PRIVATE waybill_options ${T_LINKS} GTest::gtest GTest::gtest_main GTest::gmock)
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 120)
  endif()
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT ${T_TIMEOUT} LABELS "${T_LABELS}")
endfunction()
include(GoogleTest)
