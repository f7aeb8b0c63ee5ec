// Recognises a file that a failed download left instead of the content, by its first bytes.
#pragma once
#include <string_view>

namespace makar {

// What the file is and the cure, for an error: "a Git LFS pointer: run 'git lfs pull'"; empty for other
// files.
inline std::string_view failed_download(std::string_view start) {
  if (start.starts_with("version https://git-lfs")) return "a Git LFS pointer: run 'git lfs pull'";
  if (start.starts_with("<")) return "a web page: the download failed; download the file itself";
  return {};
}

}  // namespace makar
