# Rooms: one static library for each folder of src/.
#
# A room sees another room's headers only through a dependency that it names here. Each room has an
# include folder of its own in the build tree, holding one link to the room, and only that folder is
# on its dependents' include path: including a header of a room that is not named does not compile.
set(TRAINER_ROOM_ROOTS ${CMAKE_BINARY_DIR}/rooms)

set(TRAINER_WARNINGS -Wall -Wextra -Wpedantic -Werror -Wshadow -Wnon-virtual-dtor
    -Woverloaded-virtual -Wnull-dereference -Wdouble-promotion -Wimplicit-fallthrough)
# GCC 12 reports these inside the standard library's own inlined code.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND TRAINER_WARNINGS -Wno-null-dereference -Wno-error=maybe-uninitialized
       -Wno-error=stringop-overflow -Wno-error=array-bounds -Wno-restrict
       -Wno-error=free-nonheap-object)
endif()

function(trainer_flags target)
  target_compile_options(${target} PRIVATE ${TRAINER_WARNINGS})
  if(TRAINER_SANITIZE)
    target_compile_options(${target} PUBLIC -fsanitize=${TRAINER_SANITIZE} -fno-omit-frame-pointer
                           -fno-sanitize-recover=all)
    target_link_options(${target} PUBLIC -fsanitize=${TRAINER_SANITIZE})
  endif()
endfunction()

# trainer_room(NAME SOURCES a.cpp ... [ROOMS core ...] [LIBRARIES torch::torch ...])
# ROOMS are public: a room's headers may name those rooms' types. LIBRARIES are public too.
function(trainer_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;ROOMS;LIBRARIES;PRIVATE" ${ARGN})
  list(TRANSFORM ROOM_SOURCES PREPEND ${CMAKE_SOURCE_DIR}/src/${name}/)
  add_library(${name} STATIC ${ROOM_SOURCES})
  file(MAKE_DIRECTORY ${TRAINER_ROOM_ROOTS}/${name})
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/src/${name} ${TRAINER_ROOM_ROOTS}/${name}/${name} SYMBOLIC)
  target_include_directories(${name} PUBLIC ${TRAINER_ROOM_ROOTS}/${name})
  target_link_libraries(${name} PUBLIC ${ROOM_ROOMS} ${ROOM_LIBRARIES} PRIVATE ${ROOM_PRIVATE})
  trainer_flags(${name})
endfunction()
