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

# add_cuda_sources(MODULE [GROUP...]): compiles src/MODULE/cuda/*.cu into the module, or src/MODULE/no_cuda in their place. f32
# results must have the CPU's bits: no contraction, no fast math.
#
# A GROUP is a string of file names without .cu. With MAKAR_UNITY they are compiled as one file: nvcc parses the headers several
# times per file, which takes longer than most kernels. (CMake 3.25 does this by itself only for C and C++.)
function(add_cuda_sources MODULE)
  if(NOT CMAKE_CUDA_COMPILER)
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${MODULE}/no_cuda/*.cpp)
    target_sources(makar_${MODULE} PRIVATE ${sources})
    return()
  endif()
  set(folder ${PROJECT_SOURCE_DIR}/src/${MODULE}/cuda)
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cu)
  if(MAKAR_UNITY)
    foreach(group ${ARGN})
      separate_arguments(names UNIX_COMMAND "${group}")
      list(GET names 0 first)
      set(includes "")
      foreach(name ${names})
        list(REMOVE_ITEM sources ${folder}/${name}.cu)
        string(APPEND includes "#include \"${folder}/${name}.cu\"\n")
      endforeach()
      set(unit ${CMAKE_CURRENT_BINARY_DIR}/cuda_groups/${MODULE}_${first}.cu)
      file(CONFIGURE OUTPUT ${unit} CONTENT "${includes}")
      list(APPEND sources ${unit})
    endforeach()
  endif()
  add_library(makar_${MODULE}_cuda OBJECT ${sources})
  set_target_properties(makar_${MODULE}_cuda PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_include_directories(makar_${MODULE}_cuda PRIVATE ${PROJECT_SOURCE_DIR}/src)
  # Without FMT_USE_CONSTEXPR fmt turns its constant expressions off for nvcc, but not all of them.
  target_compile_definitions(makar_${MODULE}_cuda PRIVATE MAKAR_ISA=cuda FMT_USE_CONSTEXPR=1)
  target_compile_options(makar_${MODULE}_cuda PRIVATE --extended-lambda --expt-relaxed-constexpr -fmad=false)
  target_sources(makar_${MODULE} PRIVATE $<TARGET_OBJECTS:makar_${MODULE}_cuda>)
  target_link_libraries(makar_${MODULE} PUBLIC CUDA::cudart_static)
endfunction()
