// BLAS libraries loaded with dlopen, so that several peers can be measured in one run.
#pragma once
#include <dlfcn.h>
#include <glob.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace makar::bench {

struct Blas {
  std::string name, path;
  // The C interface of BLAS: row-major 101; no transpose 111, transpose 112.
  void (*sgemm)(int order, int ta, int tb, int m, int n, int k, float alpha, const float* a, int lda,
                const float* b, int ldb, float beta, float* c, int ldc) = nullptr;
  void (*sgemv)(int order, int trans, int m, int n, float alpha, const float* a, int lda, const float* x,
                int incx, float beta, float* y, int incy) = nullptr;
};

inline std::string first_match(const std::vector<std::string>& patterns) {
  for (const auto& pattern : patterns) {
    glob_t found{};
    std::string path;
    if (glob(pattern.c_str(), 0, nullptr, &found) == 0 && found.gl_pathc > 0) path = found.gl_pathv[0];
    globfree(&found);
    if (!path.empty()) return path;
  }
  return "";
}

inline void load_blas(std::vector<Blas>& into, const std::string& name,
                      const std::vector<std::string>& patterns, const char* set_threads, int threads) {
  Blas blas{name, first_match(patterns)};
  void* library = blas.path.empty() ? nullptr : dlopen(blas.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return;
  blas.sgemm = reinterpret_cast<decltype(blas.sgemm)>(dlsym(library, "cblas_sgemm"));
  blas.sgemv = reinterpret_cast<decltype(blas.sgemv)>(dlsym(library, "cblas_sgemv"));
  void* set = dlsym(library, set_threads);
  if (!blas.sgemm || !blas.sgemv || !set) return;
  if (name == "blis")
    reinterpret_cast<void (*)(long)>(set)(threads);  // dim_t
  else
    reinterpret_cast<void (*)(int)>(set)(threads);
  into.push_back(blas);
}

inline std::vector<Blas> load_peers(int threads) {
  // Idle threads of these libraries spin long after a product and would slow down the next library. About a
  // millisecond keeps them awake between the products of one batch.
  setenv("OPENBLAS_THREAD_TIMEOUT", "20", 0);
  setenv("GOMP_SPINCOUNT", "200000", 0);
  std::vector<Blas> peers;
  load_blas(peers, "openblas",
            {"/usr/lib/*/openblas-pthread/libopenblas.so.0", "/usr/lib/*/openblas-*/libopenblas.so.0",
             "/usr/lib*/libopenblas.so.0"},
            "openblas_set_num_threads", threads);
  load_blas(peers, "blis",
            {"/usr/lib/*/blis-pthread/libblis.so.4", "/usr/lib/*/blis-openmp/libblis.so.4",
             "/usr/lib*/libblis.so.4"},
            "bli_thread_set_num_threads", threads);
  return peers;
}

}  // namespace makar::bench
