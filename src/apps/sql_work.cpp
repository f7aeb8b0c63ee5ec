// Time and memory of a statement. In SQLite 3.40 nothing else stops a statement while it is prepared: a chain
// of CTEs or views, each of which reads the one before twice, doubles what SQLite allocates per link.
// sqlite3_hard_heap_limit64() would, but for all threads of the process.
#include <sqlite3.h>

#include "apps/sql_functions.h"
#include "base/error.h"

namespace makar {
namespace {

thread_local SqlWork* work_of_thread = nullptr;  // the work of this thread's statement
sqlite3_mem_methods sqlite_methods;              // SQLite's own allocator

}  // namespace

// SQLite's allocator, which counts and limits what the statement of a thread allocates. A call of SQLite
// whose allocation fails frees everything and returns SQLITE_NOMEM.
struct SqlAllocator {
  static bool allows(int64_t bytes) {
    constexpr int64_t kAllocationsPerCheck = 64;
    if (!work_of_thread) return true;
    SqlWork& work = *work_of_thread;
    if (work.bytes_ + bytes > SqlWork::kMaxMemoryBytes) work.out_of_memory_ = true;
    if (++work.allocations_ % kAllocationsPerCheck == 0) return !work.exceeded();
    return !work.timed_out_ && !work.out_of_memory_;
  }
  static void count(int64_t bytes) {
    if (work_of_thread) work_of_thread->bytes_ += bytes;
  }
  static int64_t size(void* memory) { return memory ? sqlite_methods.xSize(memory) : 0; }

  static void* allocate(int bytes) {
    if (!allows(bytes)) return nullptr;
    void* const out = sqlite_methods.xMalloc(bytes);
    count(size(out));
    return out;
  }
  static void release(void* memory) {
    count(-size(memory));
    sqlite_methods.xFree(memory);
  }
  static void* resize(void* memory, int bytes) {
    const int64_t before = size(memory);
    if (bytes > before && !allows(bytes - before)) return nullptr;
    void* const out = sqlite_methods.xRealloc(memory, bytes);
    if (out) count(size(out) - before);
    return out;
  }

  static bool install() {
    if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &sqlite_methods) != SQLITE_OK) return false;
    sqlite3_mem_methods limited = sqlite_methods;
    limited.xMalloc = allocate, limited.xFree = release, limited.xRealloc = resize;
    return sqlite3_config(SQLITE_CONFIG_MALLOC, &limited) == SQLITE_OK;
  }
};

namespace {

// Before main(), because SQLite keeps its allocator from its first use on.
const bool installed = SqlAllocator::install();

}  // namespace

SqlWork::SqlWork() {
  check(installed, "SQLite's allocator is limited before its first use");
  if (sqlite3_open_v2(":memory:", &builtins_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr) ==
      SQLITE_OK)
    sqlite3_limit(builtins_, SQLITE_LIMIT_LENGTH, 4 << 20);
}

SqlWork::~SqlWork() {
  for (const auto& [key, statement] : statements_) sqlite3_finalize(statement);
  sqlite3_close_v2(builtins_);
}

void SqlWork::begin(double seconds) {
  check(!work_of_thread, "one statement of SQLite per thread");
  deadline_ =
      std::chrono::steady_clock::now() + std::chrono::microseconds(static_cast<int64_t>(seconds * 1e6));
  bytes_ = allocations_ = 0;
  timed_out_ = out_of_memory_ = false;
  work_of_thread = this;
}

void SqlWork::end() { work_of_thread = nullptr; }

bool SqlWork::exceeded() {
  timed_out_ = timed_out_ || std::chrono::steady_clock::now() > deadline_;
  return timed_out_ || out_of_memory_;
}

}  // namespace makar
