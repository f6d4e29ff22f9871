#include "store/sqlite/detection_rows.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "store/sqlite/counter_rows.h"
#include "store/sqlite/delivery_rows.h"
#include "store/sqlite/payload.h"
#include "store/sqlite/run_rows.h"

namespace weft::sqlite {
namespace {

absl::Status PutState(Database& database, const DetectorState& state) {
  if (state.blob.empty()) return Query(database, "DELETE FROM detector_state WHERE key = ?", state.key).Run();
  return Query(database,
               "INSERT INTO detector_state (key, payload) VALUES (?, ?) "
               "ON CONFLICT (key) DO UPDATE SET payload = excluded.payload",
               state.key, Blob{state.blob})
      .Run();
}

absl::Status PutEpisodeRow(Database& database, const Episode& episode) {
  const absl::StatusOr<std::string> payload = Encode(episode);
  if (!payload.ok()) return payload.status();
  return Query(database,
               "INSERT INTO episode (episode_id, finding_key, severity, since_time_ns, open_time_ns, "
               "resolve_time_ns, notified, payload) VALUES (?, ?, ?, ?, ?, ?, ?, ?) "
               "ON CONFLICT (episode_id) DO UPDATE SET finding_key = excluded.finding_key, severity = "
               "excluded.severity, since_time_ns = excluded.since_time_ns, open_time_ns = "
               "excluded.open_time_ns, resolve_time_ns = excluded.resolve_time_ns, notified = "
               "excluded.notified, payload = excluded.payload",
               episode.id, episode.finding.Key(), episode.finding.severity, episode.finding.since,
               episode.open_time, episode.resolve_time, episode.notified, Blob{*payload})
      .Run();
}

absl::Status PutNodes(Database& database, const Episode& episode) {
  absl::Status status = Query(database, "DELETE FROM episode_node WHERE episode_id = ?", episode.id).Run();
  for (const std::string& node_id : episode.finding.node_ids) {
    if (!status.ok()) return status;
    status = Query(database, "INSERT OR IGNORE INTO episode_node (node_id, episode_id) VALUES (?, ?)",
                   node_id, episode.id)
                 .Run();
  }
  return status;
}

absl::Status PutOpenEvidence(Database& database, const Episode& episode) {
  absl::Status status = Query(database, "DELETE FROM open_evidence WHERE episode_id = ?", episode.id).Run();
  if (!episode.is_open()) return status;
  for (const Evidence& evidence : episode.finding.evidence) {
    if (!status.ok()) return status;
    status = Query(database, "INSERT OR IGNORE INTO open_evidence (run_id, episode_id) VALUES (?, ?)",
                   evidence.run_id, episode.id)
                 .Run();
  }
  return status;
}

absl::Status PutEpisode(Database& database, const Episode& episode) {
  absl::Status status = PutEpisodeRow(database, episode);
  if (status.ok()) status = PutNodes(database, episode);
  return status.ok() ? PutOpenEvidence(database, episode) : status;
}

// Resolved ones first: one commit may end an episode and open the next of the same key.
absl::Status PutEpisodes(Database& database, const std::vector<Episode>& episodes) {
  for (const bool open : {false, true}) {
    for (const Episode& episode : episodes) {
      if (episode.is_open() != open) continue;
      if (const absl::Status status = PutEpisode(database, episode); !status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

constexpr char kOpenEpisodes[] =
    "SELECT episode_id, since_time_ns, open_time_ns, resolve_time_ns, notified, payload FROM episode "
    "WHERE resolve_time_ns = 9223372036854775807 ORDER BY episode_id";
constexpr char kEpisodes[] =
    "SELECT episode_id, since_time_ns, open_time_ns, resolve_time_ns, notified, payload FROM episode AS e "
    "WHERE (?1 = '' OR episode_id < ?1) AND (NOT ?3 OR resolve_time_ns = 9223372036854775807) "
    "AND (?4 = '' OR EXISTS (SELECT 1 FROM episode_node AS n WHERE n.node_id = ?4 AND n.episode_id = "
    "e.episode_id)) AND (?5 OR severity > 1) ORDER BY episode_id DESC LIMIT ?2";
constexpr char kEpisode[] =
    "SELECT episode_id, since_time_ns, open_time_ns, resolve_time_ns, notified, payload FROM episode "
    "WHERE episode_id = ?";

absl::Status ReadEpisode(Query& row, Episode* episode) {
  if (const absl::Status status = Decode(row.Bytes(5), episode); !status.ok()) return status;
  episode->id = row.Text(0);
  episode->finding.since = row.Time(1);
  episode->open_time = row.Time(2);
  episode->resolve_time = row.Time(3);
  episode->notified = row.Bool(4);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Episode>> ReadEpisodes(Query& query) {
  std::vector<Episode> episodes;
  while (query.Next()) {
    if (const absl::Status status = ReadEpisode(query, &episodes.emplace_back()); !status.ok()) return status;
  }
  if (!query.status().ok()) return query.status();
  return episodes;
}

}  // namespace

absl::Status CommitDetection(Database& database, const DetectionCommit& commit) {
  absl::Status status = RaiseCounter(database, "detection_cursor", commit.cursor);
  for (const DetectorState& state : commit.states) {
    if (!status.ok()) return status;
    status = PutState(database, state);
  }
  if (status.ok()) status = PutEpisodes(database, commit.episodes);
  if (status.ok()) status = InsertDeliveries(database, commit.deliveries);
  return status.ok() ? DropDeliveries(database, commit.drop_deliveries) : status;
}

absl::StatusOr<std::vector<DetectorState>> LoadDetectorStates(Database& database) {
  std::vector<DetectorState> states;
  Query query(database, "SELECT key, payload FROM detector_state ORDER BY key");
  while (query.Next()) states.push_back({query.Text(0), query.Text(1)});
  if (!query.status().ok()) return query.status();
  return states;
}

absl::StatusOr<std::vector<Episode>> OpenEpisodes(Database& database) {
  Query query(database, kOpenEpisodes);
  return ReadEpisodes(query);
}

absl::StatusOr<std::vector<Episode>> ListEpisodes(Database& database, const Store::EpisodeFilter& filter,
                                                  const PageRequest& page) {
  Query query(database, kEpisodes, page.before, RowsOf(page), filter.open_only, filter.node_id,
              filter.include_info);
  return ReadEpisodes(query);
}

absl::StatusOr<Episode> GetEpisode(Database& database, absl::string_view id) {
  Query query(database, kEpisode, id);
  absl::StatusOr<std::vector<Episode>> found = ReadEpisodes(query);
  if (!found.ok()) return found.status();
  if (found->empty()) return absl::NotFoundError(absl::StrCat("there is no finding \"", id, "\""));
  return std::move(found->front());
}

}  // namespace weft::sqlite
