// Limits of a statement of SQLite on time and memory. Its progress handler runs between instructions only:
// functions that can take long in one call are replaced by bounded ones, and while a statement is prepared,
// when 1 KB of it can become gigabytes, SQLite's allocator stops it.
#pragma once
#include <chrono>
#include <map>
#include <memory>
#include <string>

struct sqlite3;
struct sqlite3_stmt;

namespace makar {

// Time and memory of the running statement. Must not move while a connection uses it.
class SqlWork {
 public:
  // That SQLite allocates for a statement. Also bounds the time of a sort, which nothing interrupts.
  static constexpr int64_t kMaxMemoryBytes = int64_t{128} << 20;

  SqlWork();
  ~SqlWork();
  SqlWork(const SqlWork&) = delete;
  // From begin() to end() SQLite's allocations on this thread count, and fail beyond the limits. Other
  // threads are not affected.
  void begin(double seconds);
  void end();
  // Whether the time or the memory is used up; stays true until begin().
  bool exceeded();
  bool timed_out() const { return timed_out_; }
  bool out_of_memory() const { return out_of_memory_; }

  // Replaces the functions of a connection whose time is not linear in the size of their arguments (instr,
  // replace, trim, LIKE, GLOB, json_patch), or which take a length as a number (printf, format). A
  // replacement returns an error if the call would take long, else the result of SQLite's built-in function.
  void limit_functions(sqlite3* connection);
  // Functions whose results differ from run to run (random, the current time) become errors.
  void require_repeatable(sqlite3* connection);

 private:
  friend struct SqlFunctions;
  friend struct SqlAllocator;
  sqlite3_stmt* builtin(const std::string& name, int arguments);

  std::chrono::steady_clock::time_point deadline_;
  int64_t bytes_ = 0, allocations_ = 0;  // since begin()
  bool timed_out_ = false, out_of_memory_ = false;
  sqlite3* builtins_ = nullptr;  // a connection with SQLite's built-in functions
  std::map<std::pair<std::string, int>, sqlite3_stmt*> statements_;
};

}  // namespace makar
