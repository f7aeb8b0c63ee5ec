// For programs that use makar as a library: families of their own.
#pragma once
#include "models/family.h"

namespace makar {

// Adds a family, which must live as long as the program; find_family() searches added families first. Call it
// before models are opened, not from several threads.
void add_family(const Family& family);

}  // namespace makar
