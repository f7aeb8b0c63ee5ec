// Approximate nearest neighbours: makar's graph and hnswlib's on the same vectors, with a tenth of them
// deleted. For each, queries per second on one core at the smallest ef with a recall@10 of at least 0.99.
#include "retrieval/hnsw.h"

#include <hnswlib/hnswlib.h>

#include <set>

#include "base/rng.h"
#include "bench/run.h"

using namespace makar;
using namespace makar::bench;

namespace {

constexpr int64_t kLatent = 16;

// Points near a 16-dimensional subspace, as embeddings are.
std::vector<float> point(uint64_t index, int64_t width) {
  const Rng draws(7, Purpose::kSynthetic), basis(8, Purpose::kSynthetic);
  std::vector<float> out(static_cast<size_t>(width), 0.0f);
  for (int64_t j = 0; j < kLatent; ++j) {
    const float x = draws.normal(index * 1000 + static_cast<uint64_t>(j));
    for (int64_t i = 0; i < width; ++i)
      out[static_cast<size_t>(i)] += x * basis.normal(static_cast<uint64_t>(j * width + i));
  }
  for (int64_t i = 0; i < width; ++i)
    out[static_cast<size_t>(i)] += 0.5f * draws.normal(index * 1000 + 500 + static_cast<uint64_t>(i));
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  RunOptions o;
  if (const auto code = parse(o, "bench_hnsw", "HNSW queries per second against hnswlib.", argc, argv))
    return *code;
  const int64_t count = 20000, width = 128, queries = 200;
  std::vector<std::vector<float>> points, query_points;
  for (int64_t i = 0; i < count; ++i) points.push_back(point(static_cast<uint64_t>(i), width));
  for (int64_t i = 0; i < queries; ++i)
    query_points.push_back(point(static_cast<uint64_t>(1000000 + i), width));

  Hnsw makar_index(width, VectorType::kF32, Similarity::kL2);
  hnswlib::L2Space space(static_cast<size_t>(width));
  hnswlib::HierarchicalNSW<float> peer_index(&space, static_cast<size_t>(count), 16, 200, 100);
  const double begin = cpu_seconds();
  for (int64_t i = 0; i < count; ++i) makar_index.add(i, points[static_cast<size_t>(i)].data());
  const double middle = cpu_seconds();
  for (int64_t i = 0; i < count; ++i)
    peer_index.addPoint(points[static_cast<size_t>(i)].data(), static_cast<size_t>(i));
  const double end = cpu_seconds();
  std::vector<int64_t> deleted;
  for (int64_t i = 0; i < count; i += 10) deleted.push_back(i);
  makar_index.remove(deleted);
  const double removed = cpu_seconds();
  for (const int64_t i : deleted) peer_index.markDelete(static_cast<size_t>(i));
  fmt::print(stderr, "built in {:.1f} s, hnswlib {:.1f} s; {} of {} removed in {:.2f} s\n", middle - begin,
             end - middle, deleted.size(), count, removed - end);

  std::vector<std::set<int64_t>> exact;
  for (const auto& q : query_points) {
    std::set<int64_t> near;
    for (const auto& n : makar_index.scan(q, 10)) near.insert(n.label);
    exact.push_back(std::move(near));
  }
  const auto makar_recall = [&](size_t ef) {
    double found = 0;
    for (size_t i = 0; i < query_points.size(); ++i)
      for (const auto& n : makar_index.search(query_points[i], 10, ef))
        found += static_cast<double>(exact[i].count(n.label));
    return found / (10.0 * static_cast<double>(queries));
  };
  const auto peer_recall = [&](size_t ef) {
    peer_index.setEf(ef);
    double found = 0;
    for (size_t i = 0; i < query_points.size(); ++i)
      for (auto top = peer_index.searchKnn(query_points[i].data(), 10); !top.empty(); top.pop())
        found += static_cast<double>(exact[i].count(static_cast<int64_t>(top.top().second)));
    return found / (10.0 * static_cast<double>(queries));
  };
  const auto smallest = [](const auto& recall) {
    size_t ef = 16;
    while (ef < 2000 && recall(ef) < 0.99) ef += ef / 16;
    return ef;
  };
  const size_t makar_ef = smallest(makar_recall), peer_ef = smallest(peer_recall);
  const double makar_found = makar_recall(makar_ef), peer_found = peer_recall(peer_ef);
  peer_index.setEf(peer_ef);
  size_t a = 0, b = 0;
  const auto times =
      o.time({[&] { makar_index.search(query_points[a++ % query_points.size()], 10, makar_ef); },
              [&] { peer_index.searchKnn(query_points[b++ % query_points.size()].data(), 10); }},
             1);
  Line line{"hnsw", "20000x128 recall@10>=0.99, 10% deleted", "hnswlib", "queries/s"};
  line.makar_value = 1 / median(times[0].seconds_per_call),
  line.peer_value = 1 / median(times[1].seconds_per_call);
  line.spread = spread(times[0].seconds_per_call), line.quiet = times[0].quiet && times[1].quiet;
  if (o.json) return line.print_json(), 0;
  fmt::print(
      "{}: {:.0f} {} at ef {} (recall {:.4f}); hnswlib {:.0f} at ef {} (recall {:.4f}); ratio {:.2f}, spread "
      "{:.3f}\n",
      line.name, line.makar_value, line.unit, makar_ef, makar_found, line.peer_value, peer_ef, peer_found,
      line.ratio(), line.spread);
  return 0;
}
