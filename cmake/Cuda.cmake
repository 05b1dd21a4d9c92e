# CUDA sources, compiled by nvcc where it is found: of the project's .venv (PyPI's nvidia-cuda-nvcc),
# of $CUDACXX or $CUDA_HOME, or of the system. Without it everything is built but the kernels.
#
# Note [Not CMake's CUDA language]: enabling it needs a whole toolkit at configure time and links its
# runtime. Here kernels are plain functions (no torch, no C++20), and the runtime is LibTorch's.
file(GLOB venv_cuda ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/cu1*/bin)
if(DEFINED ENV{CUDACXX})
  set(NVCC $ENV{CUDACXX} CACHE FILEPATH "The CUDA compiler")
endif()
find_program(NVCC nvcc HINTS ${venv_cuda} ENV CUDA_HOME PATH_SUFFIXES bin
             PATHS /usr/local/cuda/bin)

# GPUs that the kernels are compiled for; the last one also as PTX, for newer ones.
# TORCH_CUDA_ARCH_LIST="9.0" (in the environment) builds for one.
set(architectures $ENV{TORCH_CUDA_ARCH_LIST})
if(NOT architectures)
  set(architectures 7.5 8.0 8.6 9.0 10.0 12.0)
endif()
string(REGEX MATCHALL "[0-9]+\\.[0-9]" architectures "${architectures}")
set(TRAINER_CUDA_CODE "")
foreach(architecture ${architectures})
  string(REPLACE "." "" number ${architecture})
  list(APPEND TRAINER_CUDA_CODE -gencode arch=compute_${number},code=sm_${number})
endforeach()
list(APPEND TRAINER_CUDA_CODE -gencode arch=compute_${number},code=compute_${number})

if(NVCC AND C10_CUDA)
  set(TRAINER_KERNELS ON)
  message(STATUS "CUDA kernels: ${NVCC}, for ${architectures}")
else()
  set(TRAINER_KERNELS OFF)
  message(STATUS "CUDA kernels: none, since nvcc or LibTorch's CUDA half was not found")
endif()

# trainer_cuda(ROOM a.cu ...): adds them to the room and defines TRAINER_KERNELS there; nothing where
# kernels are not built. No fused multiply-add: kernels give the CPU's bits.
function(trainer_cuda room)
  if(NOT TRAINER_KERNELS)
    return()
  endif()
  foreach(source ${ARGN})
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${source}.o)
    get_filename_component(folder ${object} DIRECTORY)
    file(MAKE_DIRECTORY ${folder})
    add_custom_command(
      OUTPUT ${object}
      COMMAND ${NVCC} -c -std=c++17 -O3 --fmad=false -Xcompiler -fPIC,-Wall,-Wextra
              ${TRAINER_CUDA_CODE} -I${TRAINER_ROOM_ROOTS}/${room} -isystem ${CUDA_INCLUDE}
              -isystem ${CUDA_CRT_INCLUDE} -ccbin ${CMAKE_CXX_COMPILER} -MD -MF ${object}.d
              ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
      DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source}
      DEPFILE ${object}.d
      COMMENT "Compiling ${source} with nvcc"
      VERBATIM)
    target_sources(${room} PRIVATE ${object})
  endforeach()
  target_compile_definitions(${room} PRIVATE TRAINER_KERNELS)
endfunction()
