# Compiler settings that every target shares: warnings are errors, no coroutines (g++ 12
# miscompiles ordinary co_await calls without a word), hardening also in release builds.

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_C_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
endif()

find_program(MOLD_PROGRAM mold)
if(MOLD_PROGRAM)
  add_link_options(-fuse-ld=mold)
endif()

add_library(waybill_options INTERFACE)
target_compile_options(waybill_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wswitch-enum -Wnon-virtual-dtor
  -Wold-style-cast -Wimplicit-fallthrough -Werror
  -fstack-protector-strong "-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=")
target_compile_definitions(waybill_options INTERFACE _GLIBCXX_ASSERTIONS)
target_include_directories(waybill_options INTERFACE "${CMAKE_SOURCE_DIR}/src" "${CMAKE_BINARY_DIR}/generated")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(waybill_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fno-coroutines>)
endif()

if(WAYBILL_SANITIZE)
  add_compile_options("-fsanitize=${WAYBILL_SANITIZE}" -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options("-fsanitize=${WAYBILL_SANITIZE}")
endif()
