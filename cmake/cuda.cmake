# CUDA is used where MAKAR_CUDA is on and a CUDA compiler is found; builds with sanitizers leave it out.
if(MAKAR_CUDA AND NOT MAKAR_SANITIZE)
  include(CheckLanguage)
  check_language(CUDA)
endif()
if(CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_ARCHITECTURES 90a)  # Hopper
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)  # CMake 3.25 does not know it
endif()

# add_cuda_sources(MODULE): compiles src/MODULE/cuda/*.cu into the module, or src/MODULE/no_cuda in their place. f32 results must
# have the CPU's bits: no contraction, no fast math.
function(add_cuda_sources MODULE)
  if(NOT CMAKE_CUDA_COMPILER)
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${MODULE}/no_cuda/*.cpp)
    target_sources(makar_${MODULE} PRIVATE ${sources})
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${MODULE}/cuda/*.cu)
  add_library(makar_${MODULE}_cuda OBJECT ${sources})
  set_target_properties(makar_${MODULE}_cuda PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_include_directories(makar_${MODULE}_cuda PRIVATE ${PROJECT_SOURCE_DIR}/src)
  # Without FMT_USE_CONSTEXPR fmt turns its constant expressions off for nvcc, but not all of them.
  target_compile_definitions(makar_${MODULE}_cuda PRIVATE MAKAR_ISA=cuda FMT_USE_CONSTEXPR=1)
  target_compile_options(makar_${MODULE}_cuda PRIVATE --extended-lambda --expt-relaxed-constexpr -fmad=false)
  target_sources(makar_${MODULE} PRIVATE $<TARGET_OBJECTS:makar_${MODULE}_cuda>)
  target_link_libraries(makar_${MODULE} PUBLIC CUDA::cudart_static)
endfunction()
