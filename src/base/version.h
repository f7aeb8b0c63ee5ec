// The version of the program.
#pragma once

namespace makar {

inline constexpr const char* kMakarVersion = "0.1.0";

}  // namespace makar
