// The files inside a zip archive, found through its central directory. Only stored (uncompressed) files can
// be read, which is how PyTorch writes its archives; 64-bit sizes and offsets (zip64) are supported.
#pragma once
#include <map>
#include <span>
#include <string>

#include "base/error.h"

namespace makar {

using ZipFiles = std::map<std::string, std::span<const std::byte>>;  // name to its bytes

Result<ZipFiles> read_zip_index(std::span<const std::byte> bytes, const std::string& place);

}  // namespace makar
