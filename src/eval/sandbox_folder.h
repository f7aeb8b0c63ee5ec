// The folder of a program in the sandbox. The program may make it large, deep and unreadable.
#pragma once
#include <string>

#include "base/error.h"

namespace makar {

// Locked (flock) while it is in use: a folder without a lock is left from a killed process.
class ProgramFolder {
 public:
  // Makes one in the folder for temporary files, and removes there those that this user's ended processes
  // left.
  static Result<ProgramFolder> make();
  ~ProgramFolder();
  ProgramFolder(ProgramFolder&& other) noexcept;
  ProgramFolder& operator=(ProgramFolder&&) = delete;

  const std::string& path() const { return path_; }
  // Removes it and what is in it, after the program has ended. Error: kIo, if something cannot be removed.
  Status remove();

 private:
  ProgramFolder() = default;
  std::string path_;
  int lock_ = -1;
};

// Whether its files take more than `bytes`, are too many or too deep, or cannot be read.
bool is_larger(const std::string& folder, int64_t bytes);

}  // namespace makar
