#include "retrieval/vector_graph.h"

namespace makar {

Result<VectorGraph> VectorGraph::open(const IndexStore& store, const CollectionInfo& c) {
  VectorGraph out;
  Status status = Done{};
  MAKAR_RETURN_IF_ERROR(store.database().each(
      "SELECT k.id, v.data, g.links FROM chunks k JOIN vectors v ON v.chunk = k.id LEFT JOIN graph g ON "
      "g.chunk = k.id "
      "WHERE k.collection = ? ORDER BY k.id",
      {c.id}, [&](const SqlRow& row) {
        if (!status.ok()) return;
        status = [&]() -> Status {
          MAKAR_TRY(const auto vector, decode_vector(sql_text(row[1]), c.settings.vector, store.path()));
          const auto width = static_cast<int64_t>(vector.size());
          if (!out.graph_)
            out.graph_ = std::make_unique<Hnsw>(width, c.settings.vector, c.settings.similarity);
          if (width != out.graph_->width())
            return error_at(store.path(), "the vectors have different widths; build the index again");
          MAKAR_TRY(auto links, read_links(sql_text(row[2]), store.path()));
          out.graph_->restore(sql_number(row[0]), vector.data(), std::move(links));
          return Done{};
        }();
      }));
  MAKAR_RETURN_IF_ERROR(status);
  if (out.graph_) MAKAR_RETURN_IF_ERROR(out.graph_->finish_restore(store.path()));
  return out;
}

Status VectorGraph::apply(const IndexStore& store, const CollectionInfo& c,
                          const IndexStore::Change& change) {
  if (graph_) graph_->remove(change.removed);
  for (const int64_t chunk : change.added) {
    MAKAR_TRY(const auto rows, store.database().rows("SELECT data FROM vectors WHERE chunk = ?", {chunk}));
    if (rows.empty()) return error_at(store.path(), "chunk {} has no vector", chunk);
    MAKAR_TRY(const auto vector, decode_vector(sql_text(rows[0][0]), c.settings.vector, store.path()));
    const auto width = static_cast<int64_t>(vector.size());
    if (!graph_) graph_ = std::make_unique<Hnsw>(width, c.settings.vector, c.settings.similarity);
    if (width != graph_->width())
      return error_at(store.path(), "the vectors have different widths; build the index again");
    graph_->add(chunk, vector.data());
  }
  if (!graph_) return Done{};
  for (const int64_t chunk : graph_->take_changed())
    MAKAR_RETURN_IF_ERROR(store.database().run("INSERT OR REPLACE INTO graph (chunk, links) VALUES (?, ?)",
                                               {chunk, SqlBlob{write_links(graph_->links(chunk))}}));
  return Done{};
}

}  // namespace makar
