# Libraries the project stands on. Debian's packages, and LibTorch from CMAKE_PREFIX_PATH or, where
# that names none, from the project's own .venv.
find_package(Threads REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(JPEG REQUIRED)
find_path(XXHASH_INCLUDE xxhash.h REQUIRED)
find_library(XXHASH_LIBRARY xxhash REQUIRED)
add_library(xxhash::xxhash INTERFACE IMPORTED)
target_include_directories(xxhash::xxhash INTERFACE ${XXHASH_INCLUDE})
target_link_libraries(xxhash::xxhash INTERFACE ${XXHASH_LIBRARY})

# Tokenizers: patterns, normal forms, and (where it is installed) tokenizer.model files.
# find_plain(NAME HEADER LIBRARY [REQUIRED]): a library without a CMake package, as NAME::NAME.
function(find_plain name header library)
  string(TOUPPER ${name} upper)
  find_path(${upper}_INCLUDE ${header} ${ARGN})
  find_library(${upper}_LIBRARY ${library} ${ARGN})
  if(${upper}_INCLUDE AND ${upper}_LIBRARY)
    add_library(${name}::${name} INTERFACE IMPORTED GLOBAL)
    target_include_directories(${name}::${name} SYSTEM INTERFACE ${${upper}_INCLUDE})
    target_link_libraries(${name}::${name} INTERFACE ${${upper}_LIBRARY})
  endif()
endfunction()
find_plain(pcre2 pcre2.h pcre2-8 REQUIRED)
find_plain(utf8proc utf8proc.h utf8proc REQUIRED)
find_plain(sentencepiece sentencepiece_processor.h sentencepiece)

# Note [Finding torch]: find_package(Torch) enables the CUDA language and then needs nvcc and the
# toolkit's headers. Only C++ is compiled against torch (kernels see none of it), so its libraries are
# named directly.
file(GLOB venv_torch ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch)
find_path(TORCH_ROOT include/ATen/ATen.h HINTS $ENV{LIBTORCH} ${CMAKE_PREFIX_PATH} ${venv_torch}
          PATH_SUFFIXES ../.. . NO_CMAKE_SYSTEM_PATH REQUIRED
          DOC "LibTorch's folder: it holds include/ and lib/")
find_library(C10_CUDA c10_cuda PATHS ${TORCH_ROOT}/lib NO_DEFAULT_PATH)
get_filename_component(SITE_PACKAGES ${TORCH_ROOT}/.. ABSOLUTE)

add_library(torch::torch INTERFACE IMPORTED)
# SYSTEM: torch's own headers do not pass our warnings.
target_include_directories(torch::torch SYSTEM INTERFACE ${TORCH_ROOT}/include
                           ${TORCH_ROOT}/include/torch/csrc/api/include)
# Narrow headers: each operator is included by its own, not all of ATen.
target_compile_definitions(torch::torch INTERFACE AT_PER_OPERATOR_HEADERS)
target_link_directories(torch::torch INTERFACE ${TORCH_ROOT}/lib)
target_link_libraries(torch::torch INTERFACE torch_cpu c10 nlohmann_json::nlohmann_json)
if(C10_CUDA)
  # The wheel carries the CUDA runtime and its headers; another LibTorch uses the system's toolkit.
  find_path(CUDA_INCLUDE cuda_runtime_api.h PATHS ${SITE_PACKAGES}/nvidia/cu13/include
            /usr/local/cuda/include NO_DEFAULT_PATH REQUIRED)
  find_path(CUDA_CRT_INCLUDE crt/host_config.h HINTS ${CUDA_INCLUDE} /usr/local/cuda/include)
  if(NOT CUDA_CRT_INCLUDE)
    message(FATAL_ERROR "The CUDA headers in ${CUDA_INCLUDE} are not whole: crt/host_config.h is "
                        "missing. Install PyPI's nvidia-cuda-crt beside torch, or the CUDA toolkit.")
  endif()
  find_library(CUDART NAMES libcudart.so.13 libcudart.so.12 cudart REQUIRED NO_DEFAULT_PATH
               PATHS ${SITE_PACKAGES}/nvidia/cu13/lib ${TORCH_ROOT}/lib /usr/local/cuda/lib64)
  target_include_directories(torch::torch SYSTEM INTERFACE ${CUDA_INCLUDE} ${CUDA_CRT_INCLUDE})
  # The CUDA half registers its kernels when it is loaded: nothing refers to it, so the linker must
  # be told to keep it.
  target_link_libraries(torch::torch INTERFACE -Wl,--push-state,--no-as-needed torch_cuda c10_cuda
                        ${CUDART} -Wl,--pop-state)
  target_compile_definitions(torch::torch INTERFACE TRAINER_CUDA)
endif()
set(TRAINER_TORCH_RPATH ${TORCH_ROOT}/lib)
