// The folder of a program in the sandbox. The program may make it large, deep and unreadable.
#pragma once
#include <string>

#include "base/error.h"

namespace makar {

Result<std::string> make_program_folder();  // in the folder for temporary files

// Whether its files take more than `bytes`, are too many or too deep, or cannot be read.
bool is_larger(const std::string& folder, int64_t bytes);

// Removes a folder and what is in it, after the program has ended. Error: kIo, if something cannot be
// removed.
Status remove_program_folder(const std::string& folder);

}  // namespace makar
