# The only ways in which this tree declares targets: weft_cc_library, weft_cc_binary, weft_cc_test,
# weft_cc_test_library, weft_cc_bench, weft_cc_fuzz. Sources are listed, never globbed. Library names are their folder joined by underscores,
# e.g. server/plan -> weft_server_plan.

set(WEFT_WARNINGS -Wall -Wextra -Wshadow -Wconversion $<$<BOOL:${WEFT_WARNINGS_ARE_ERRORS}>:-Werror>)
set(WEFT_SANITIZE_FLAGS "")
if(WEFT_SANITIZE)
  set(WEFT_SANITIZE_FLAGS -fsanitize=${WEFT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_compile_options(${WEFT_SANITIZE_FLAGS})
  if(WEFT_SANITIZE MATCHES "thread")
    # Under this macro protobuf's headers add members that the packaged library, built without it, does not have.
    add_compile_options(-U__SANITIZE_THREAD__)
  endif()
  add_link_options(${WEFT_SANITIZE_FLAGS})
endif()

function(_weft_cc_options target)
  target_compile_options(${target} PRIVATE ${WEFT_WARNINGS})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    target_compile_options(${target} PRIVATE -Wthread-safety)
  endif()
  if(WEFT_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC says that atomic_thread_fence is not modelled by its ThreadSanitizer; third-party headers use it.
    target_compile_options(${target} PRIVATE -Wno-tsan)
  endif()
endfunction()

# weft_cc_library(NAME n SRCS a.cc DEPS x y)   headers need no listing
function(weft_cc_library)
  cmake_parse_arguments(ARG "" "NAME" "SRCS;DEPS" ${ARGN})
  if(ARG_SRCS)
    add_library(${ARG_NAME} STATIC ${ARG_SRCS})
    target_include_directories(${ARG_NAME} PUBLIC ${CMAKE_SOURCE_DIR})
    target_link_libraries(${ARG_NAME} PUBLIC ${ARG_DEPS} Threads::Threads)
    _weft_cc_options(${ARG_NAME})
  else()
    add_library(${ARG_NAME} INTERFACE)
    target_include_directories(${ARG_NAME} INTERFACE ${CMAKE_SOURCE_DIR})
    target_link_libraries(${ARG_NAME} INTERFACE ${ARG_DEPS} Threads::Threads)
  endif()
endfunction()

# weft_cc_binary(NAME n SRCS main.cc DEPS x)   lands in build/<preset>/bin
function(weft_cc_binary)
  cmake_parse_arguments(ARG "" "NAME" "SRCS;DEPS" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SRCS})
  target_include_directories(${ARG_NAME} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS} Threads::Threads)
  _weft_cc_options(${ARG_NAME})
  # Libraries may travel in a folder beside that of the programs; those that they need in turn are looked for there too.
  set_target_properties(${ARG_NAME} PROPERTIES BUILD_RPATH "\$ORIGIN/../lib")
  target_link_options(${ARG_NAME} PRIVATE LINKER:--disable-new-dtags)
endfunction()

# What the ThreadSanitizer preset builds: every test that starts no gRPC.
if(WEFT_BUILD_TESTS)
  add_custom_target(weft_tests_below_grpc)
endif()

# weft_cc_test(NAME n SRCS t.cc DEPS x [LABELS slow rpc] [TIMEOUT s])
#   label `slow`: more than about 10 s.  label `rpc`: starts gRPC, left out under ThreadSanitizer.
#   ctest has rapidcheck not shrink: a failure must name its seed before the time-out; run the binary to shrink.
function(weft_cc_test)
  if(NOT WEFT_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "NAME;TIMEOUT" "SRCS;DEPS;LABELS" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SRCS})
  set_target_properties(${ARG_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_include_directories(${ARG_NAME} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest GTest::gtest_main
                        ${WEFT_RAPIDCHECK} Threads::Threads)
  _weft_cc_options(${ARG_NAME})
  # Test code is templates through and through: optimising it, under sanitizers above all, doubles the build.
  target_compile_options(${ARG_NAME} PRIVATE $<$<CONFIG:Debug>:-O0>)
  add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME})
  if(NOT "rpc" IN_LIST ARG_LABELS)
    add_dependencies(weft_tests_below_grpc ${ARG_NAME})
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  set_tests_properties(${ARG_NAME} PROPERTIES
    TIMEOUT ${ARG_TIMEOUT}
    LABELS "${ARG_LABELS}"
    ENVIRONMENT "RC_PARAMS=noshrink=1;WEFT_BIN_DIR=${CMAKE_BINARY_DIR}/bin;WEFT_SOURCE_DIR=${CMAKE_SOURCE_DIR};TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/tsan.supp halt_on_error=1;LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/lsan.supp")
endfunction()

# weft_cc_test_library(NAME n SRCS f.cc [DEFINES D])   a shared library that tests load in place of a driver's;
#   lands in build/<preset>/tests.
function(weft_cc_test_library)
  if(NOT WEFT_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "NAME" "SRCS;DEFINES" ${ARGN})
  add_library(${ARG_NAME} MODULE ${ARG_SRCS})
  set_target_properties(${ARG_NAME} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_include_directories(${ARG_NAME} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_definitions(${ARG_NAME} PRIVATE ${ARG_DEFINES})
  _weft_cc_options(${ARG_NAME})
endfunction()

# weft_cc_bench(NAME n SRCS b.cc DEPS x)   Google Benchmark; lands in build/<preset>/bench
function(weft_cc_bench)
  if(NOT WEFT_BUILD_BENCH OR NOT TARGET benchmark::benchmark)
    return()
  endif()
  cmake_parse_arguments(ARG "" "NAME" "SRCS;DEPS" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SRCS})
  set_target_properties(${ARG_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)
  target_include_directories(${ARG_NAME} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS} benchmark::benchmark Threads::Threads)
  _weft_cc_options(${ARG_NAME})
endfunction()

# weft_cc_fake(NAME n FILE libx.so.1 FOLDER f SRCS s.cc DEPS x DEFINES D)   a shared library that stands in for
# somebody else's in tests; lands in build/<preset>/tests/f under that name
function(weft_cc_fake)
  if(NOT WEFT_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "NAME;FILE;FOLDER" "SRCS;DEPS;DEFINES" ${ARGN})
  add_library(${ARG_NAME} SHARED ${ARG_SRCS})
  set_target_properties(${ARG_NAME} PROPERTIES
    PREFIX "" OUTPUT_NAME ${ARG_FILE} SUFFIX "" NO_SONAME TRUE
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/${ARG_FOLDER} BUILD_RPATH "\$ORIGIN")
  target_link_options(${ARG_NAME} PRIVATE -Wl,-soname,${ARG_FILE})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS} Threads::Threads)
  target_compile_definitions(${ARG_NAME} PRIVATE ${ARG_DEFINES})
  _weft_cc_options(${ARG_NAME})
endfunction()

# weft_cc_fuzz(NAME n SRCS f.cc own.cc DEPS x)   libFuzzer; lands in build/<preset>/fuzz
#   Lists the sources under test themselves, so that they are instrumented whatever the rest is built with.
function(weft_cc_fuzz)
  if(NOT WEFT_BUILD_FUZZERS)
    return()
  endif()
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "WEFT_BUILD_FUZZERS needs Clang: use the preset `clang`")
  endif()
  cmake_parse_arguments(ARG "" "NAME" "SRCS;DEPS" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SRCS})
  set_target_properties(${ARG_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  target_include_directories(${ARG_NAME} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS} Threads::Threads)
  _weft_cc_options(${ARG_NAME})
  target_compile_options(${ARG_NAME} PRIVATE -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all)
  target_link_options(${ARG_NAME} PRIVATE -fsanitize=fuzzer,address,undefined)
endfunction()
