# makar as a library: libmakar.so with the C API, and the C++ modules below `llm` and `train` with their headers for
# find_package(makar). `cmake --install build --component library` installs both.
target_include_directories(makar_capi PRIVATE ${PROJECT_SOURCE_DIR}/include)

# Only the functions of include/makar.h are exported.
add_library(makar_shared SHARED $<TARGET_OBJECTS:makar_capi>)
target_link_libraries(makar_shared PRIVATE makar_llm)
target_link_options(makar_shared PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/makar.map -Wl,--no-undefined)
set_target_properties(makar_shared PROPERTIES OUTPUT_NAME makar VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
                      LINKER_LANGUAGE CXX LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/makar.map
                      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(makar_modules base tensor text formats kernels ops nn models optim data world images infer metrics llm train)
list(TRANSFORM makar_modules PREPEND makar_)
set(makar_package ${CMAKE_INSTALL_LIBDIR}/cmake/makar)
install(TARGETS ${makar_modules} EXPORT makar ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
install(TARGETS makar_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
install(EXPORT makar NAMESPACE makar:: FILE makarTargets.cmake DESTINATION ${makar_package} COMPONENT library)
foreach(module ${makar_modules})
  string(REPLACE makar_ "" folder ${module})
  install(DIRECTORY src/${folder} DESTINATION include/makar COMPONENT library FILES_MATCHING PATTERN "*.h")
endforeach()
install(FILES include/makar.h DESTINATION include COMPONENT library)
install(FILES python/makar.py DESTINATION share/makar/python COMPONENT library)
configure_package_config_file(cmake/makarConfig.cmake.in ${CMAKE_BINARY_DIR}/makarConfig.cmake INSTALL_DESTINATION ${makar_package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/makarConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/makarConfig.cmake ${CMAKE_BINARY_DIR}/makarConfigVersion.cmake DESTINATION ${makar_package}
        COMPONENT library)
