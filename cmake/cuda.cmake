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

# cuda_units(OUT EXTENSION [EXCEPT name...]): the files of src/kernels/cuda, as units named *.EXTENSION of one or several of them.
#
# With MAKAR_UNITY the files of a group are compiled as one: nvcc parses the headers several times per file, which takes longer than
# most kernels. (CMake 3.25 does this by itself only for C and C++.)
set(MAKAR_CUDA_GROUPS "attention rope gemm" "elementwise rows norm losses optimizers" "embed_backward bf16_attention"
    "bf16_elementwise bf16_norm bf16_losses bf16_product" "bf16_attention_backward cublas cuda_device")
function(cuda_units OUT EXTENSION)
  cmake_parse_arguments(UNITS "" "" "EXCEPT" ${ARGN})
  set(folder ${PROJECT_SOURCE_DIR}/src/kernels/cuda)
  file(GLOB files CONFIGURE_DEPENDS RELATIVE ${folder} ${folder}/*.cu)
  list(TRANSFORM files REPLACE "\\.cu$" "")
  list(REMOVE_ITEM files ${UNITS_EXCEPT})
  set(groups ${MAKAR_CUDA_GROUPS})
  if(NOT MAKAR_UNITY)
    set(groups "")
  endif()
  set(units "")
  foreach(group ${groups} ${files})
    separate_arguments(names UNIX_COMMAND "${group}")
    list(GET names 0 first)
    set(includes "")
    foreach(name ${names})
      if(name IN_LIST files)
        list(REMOVE_ITEM files ${name})
        string(APPEND includes "#include \"${folder}/${name}.cu\"\n")
      endif()
    endforeach()
    if(includes)
      set(unit ${CMAKE_CURRENT_BINARY_DIR}/cuda_units/${first}.${EXTENSION})
      file(CONFIGURE OUTPUT ${unit} CONTENT "${includes}")
      list(APPEND units ${unit})
    endif()
  endforeach()
  set(${OUT} ${units} PARENT_SCOPE)
endfunction()

# add_cuda_sources(MODULE): compiles src/MODULE/cuda/*.cu into the module, or src/MODULE/no_cuda in their place. f32
# results must have the CPU's bits: no contraction, no fast math.
function(add_cuda_sources MODULE)
  if(NOT CMAKE_CUDA_COMPILER)
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${MODULE}/no_cuda/*.cpp)
    target_sources(makar_${MODULE} PRIVATE ${sources})
    # An object of their own: programs with the simulated GPU do not link it.
    set_source_files_properties(${sources} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    return()
  endif()
  cuda_units(units cu)
  add_library(makar_${MODULE}_cuda OBJECT ${units})
  set_target_properties(makar_${MODULE}_cuda PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_include_directories(makar_${MODULE}_cuda PRIVATE ${PROJECT_SOURCE_DIR}/src)
  # Without FMT_USE_CONSTEXPR fmt turns its constant expressions off for nvcc, but not all of them.
  target_compile_definitions(makar_${MODULE}_cuda PRIVATE MAKAR_ISA=cuda FMT_USE_CONSTEXPR=1)
  target_compile_options(makar_${MODULE}_cuda PRIVATE --extended-lambda --expt-relaxed-constexpr -fmad=false)
  target_sources(makar_${MODULE} PRIVATE $<TARGET_OBJECTS:makar_${MODULE}_cuda>)
  target_link_libraries(makar_${MODULE} PUBLIC CUDA::cudart_static)
endfunction()
