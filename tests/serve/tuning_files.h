// What the tests of fine-tuning jobs share.
#pragma once
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace makar {

// Writes a file, and makes its folder.
inline void write_text(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << text;
}

// Waits up to a minute.
template <class Reached>
bool until(const Reached& reached) {
  for (int i = 0; i < 60000 && !reached(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return reached();
}

}  // namespace makar
