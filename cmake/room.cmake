# add_room(NAME [DEPS room...] [LIBS target...] [ALONE pattern...] [MAIN program])
#
# One room = one static library `makar_NAME` made of every .cpp below src/NAME. DEPS are the rooms it may
# include; tests/structure/rooms.py compares them with the #includes. MAIN also links the program from main.cpp.
#
# With MAKAR_UNITY sixteen files are compiled as one, which spares most readings of the same templates: a clean
# build takes a quarter less time. Files that match an ALONE pattern are compiled by themselves: they have names of their
# own kind in common with their neighbours (every model page has a `read`, every pipeline part a `Sequence`).
function(add_room NAME)
  cmake_parse_arguments(ROOM "" "MAIN" "DEPS;LIBS;ALONE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${NAME}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/isa/")  # compiled once per instruction set by the room's own rules
  list(REMOVE_ITEM sources ${PROJECT_SOURCE_DIR}/src/${NAME}/main.cpp)
  if(NOT sources)
    return()
  endif()
  add_library(makar_${NAME} STATIC ${sources})
  set_target_properties(makar_${NAME} PROPERTIES UNITY_BUILD ${MAKAR_UNITY} UNITY_BUILD_BATCH_SIZE 16)
  foreach(pattern ${ROOM_ALONE})
    set(alone ${sources})
    list(FILTER alone INCLUDE REGEX "/src/${NAME}/${pattern}")
    set_source_files_properties(${alone} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endforeach()
  target_include_directories(makar_${NAME} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  foreach(room ${ROOM_DEPS})
    if(TARGET makar_${room})  # a room without sources yet has no library
      target_link_libraries(makar_${NAME} PUBLIC makar_${room})
    endif()
  endforeach()
  target_link_libraries(makar_${NAME} PUBLIC ${ROOM_LIBS})
  # JSON and formatting are most of what a file reads: parsed once for all rooms, a clean build takes half as long.
  if(NAME STREQUAL base)
    target_precompile_headers(makar_base PRIVATE <algorithm> <functional> <map> <memory> <string> <unordered_map> <vector>
                              <fmt/format.h> <nlohmann/json.hpp>)
  else()
    target_precompile_headers(makar_${NAME} REUSE_FROM makar_base)
  endif()
  if(ROOM_MAIN)
    add_executable(${ROOM_MAIN} ${PROJECT_SOURCE_DIR}/src/${NAME}/main.cpp)
    target_link_libraries(${ROOM_MAIN} PRIVATE makar_${NAME})
    set_target_properties(${ROOM_MAIN} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
  endif()
endfunction()
