# add_module(NAME [DEPS module...] [LIBS target...] [ALONE pattern...] [BATCH files] [SMALL] [MAIN program])
#
# One module = one static library `makar_NAME` made of every .cpp below src/NAME. DEPS are the modules it may
# include; tests/structure/modules.py compares them with the #includes. MAIN also links the program from main.cpp.
#
# With MAKAR_UNITY up to BATCH (18) files are compiled as one, so most templates are instantiated once; larger batches
# would slow down the build after an edit of one file. Files that match an ALONE pattern are compiled separately because they share file-local
# names with other files of the module (every kind of pipeline component has a `Sequence`).
#
# SMALL: a module without inner loops is compiled for size (-Os), which takes a sixth less time.
function(add_module NAME)
  cmake_parse_arguments(MODULE "SMALL" "MAIN;BATCH" "DEPS;LIBS;ALONE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${NAME}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/(isa|no_cuda)/")  # the module's own rules add them (isa.cmake, cuda.cmake)
  list(REMOVE_ITEM sources ${PROJECT_SOURCE_DIR}/src/${NAME}/main.cpp)
  if(NOT sources)
    return()
  endif()
  add_library(makar_${NAME} STATIC ${sources})
  set(batched ${sources})
  foreach(pattern ${MODULE_ALONE})
    set(alone ${sources})
    list(FILTER alone INCLUDE REGEX "/src/${NAME}/${pattern}")
    list(FILTER batched EXCLUDE REGEX "/src/${NAME}/${pattern}")
    set_source_files_properties(${alone} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endforeach()
  # Batches of equal size.
  if(NOT MODULE_BATCH)
    set(MODULE_BATCH 18)
  endif()
  list(LENGTH batched files)
  math(EXPR batches "(${files} + ${MODULE_BATCH} - 1) / ${MODULE_BATCH}")
  math(EXPR size "(${files} + ${batches} - 1) / ${batches}")
  set_target_properties(makar_${NAME} PROPERTIES UNITY_BUILD ${MAKAR_UNITY} UNITY_BUILD_BATCH_SIZE ${size})
  target_include_directories(makar_${NAME} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
                             $<INSTALL_INTERFACE:include/makar>)
  foreach(module ${MODULE_DEPS})
    if(TARGET makar_${module})  # a module without sources yet has no library
      target_link_libraries(makar_${NAME} PUBLIC makar_${module})
    endif()
  endforeach()
  target_link_libraries(makar_${NAME} PUBLIC ${MODULE_LIBS})
  # JSON and formatting are most of what the compiler parses: precompiled once for each kind of module, a clean build
  # takes half as long.
  if(MODULE_SMALL AND CMAKE_BUILD_TYPE STREQUAL Release AND NOT MAKAR_SANITIZE)
    target_compile_options(makar_${NAME} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Os>)
    set(kind SMALL)
  else()
    set(kind FAST)
  endif()
  get_property(owner GLOBAL PROPERTY MAKAR_PRECOMPILED_${kind})
  if(owner)
    target_precompile_headers(makar_${NAME} REUSE_FROM ${owner})
  else()
    target_precompile_headers(makar_${NAME} PRIVATE <algorithm> <charconv> <chrono> <cmath> <filesystem> <functional> <map>
                              <memory> <mutex> <optional> <set> <span> <string> <unordered_map> <unordered_set> <vector>
                              <fmt/format.h> <nlohmann/json.hpp>)
    set_property(GLOBAL PROPERTY MAKAR_PRECOMPILED_${kind} makar_${NAME})
  endif()
  if(MODULE_MAIN)
    add_executable(${MODULE_MAIN} ${PROJECT_SOURCE_DIR}/src/${NAME}/main.cpp)
    target_link_libraries(${MODULE_MAIN} PRIVATE makar_${NAME})
    set_target_properties(${MODULE_MAIN} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
  endif()
endfunction()
