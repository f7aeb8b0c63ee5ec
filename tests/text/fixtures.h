// Paths of third-party fixtures and how to read them. A test without its fixtures is skipped.
#pragma once
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "text/tokenizer.h"

namespace makar {

inline std::string fixture_folder(const char* variable, const std::string& below_shared) {
  if (const char* folder = std::getenv(variable)) return folder;
  return std::string(MAKAR_SOURCE_DIR) + "/../shared/" + below_shared;
}
inline std::string assets() {
  std::string folder = fixture_folder("MAKAR_ASSETS", "assets");
  if (!is_folder(folder)) folder = std::string(MAKAR_SOURCE_DIR) + "/../../shared/assets";
  return folder;
}
inline std::string shared_golden() {
  std::string folder = fixture_folder("MAKAR_GOLDEN_SHARED", "golden");
  if (!is_folder(folder)) folder = assets() + "/../golden";
  return folder;
}

// The file, or the decompressed `path`.gz.
inline std::string read_packed(const std::string& path) {
  const bool packed = !is_file(path) || path.ends_with(".gz");
  const std::string source = is_file(path) ? path : path + ".gz";
  if (!packed) return *read_file(path);
  FILE* pipe = popen(("zcat '" + source + "'").c_str(), "r");
  std::string out;
  char buffer[1 << 16];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) out.append(buffer, n);
  pclose(pipe);
  return out;
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

inline Result<Tokenizer> tokenizer_from(const std::string& path) {
  MAKAR_TRY(Json json, parse_json(read_packed(path), path));
  return Tokenizer::from_json(std::move(json), path);
}

}  // namespace makar
