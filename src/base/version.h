// What the program calls itself.
#pragma once

namespace makar {

inline constexpr const char* kMakarVersion = "0.1.0";

}  // namespace makar
