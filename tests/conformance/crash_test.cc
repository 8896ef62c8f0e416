// I6 and SPEC section 12: the power fails at every single write of a journey. What was answered is
// there; what was not is there wholly or not at all; and from there everything is heard.

#include <set>

#include "faulty_disk.h"
#include "world.h"

namespace waybill::test {
namespace {

using engine::AttachReply;
using engine::InboxReply;
using engine::RunReply;
using engine::TurnReply;

// ---- everything that is in a store, as text ----------------------------------------------------

// Ids and fingerprints are random: the first one that appears is #1, and so on.
std::string without_chance(const std::string& text) {
  const auto is_word = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  std::map<std::string, std::size_t> known;
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && is_word(text[end])) ++end;
    if (end == at) {
      out.push_back(text[at++]);
      continue;
    }
    const std::string word = text.substr(at, end - at);
    at = end;
    if (word.size() != 27 && word.size() < 32) {
      out += word;
      continue;
    }
    const auto [place, is_new] = known.try_emplace(word, known.size() + 1);
    out += "#" + std::to_string(place->second);
  }
  return out;
}

std::vector<std::string> texts(store::Database& db, const std::string& sql) {
  std::vector<std::string> found;
  const auto read = db.each(sql, {}, [&](const store::Row& row) -> Result<void> {
    found.push_back(row.string(0));
    return {};
  });
  EXPECT_TRUE(read) << (read ? "" : read.error().message);
  return found;
}

std::string content(store::Database& db) {
  std::string all;
  for (const std::string& table :
       texts(db, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")) {
    std::string row;
    for (const std::string& column :
         texts(db, "SELECT name FROM pragma_table_info('" + table + "') ORDER BY cid")) {
      if (!row.empty()) row += " || '|' || ";
      row += "coalesce(CASE typeof(" + column + ") WHEN 'blob' THEN 'blob ' || length(" + column +
             ") ELSE " + column + " END, 'null')";
    }
    all += "== " + table + "\n";
    for (const std::string& line :
         texts(db, "SELECT " + row + " FROM \"" + table + "\" ORDER BY rowid")) {
      all += line + "\n";
    }
  }
  return without_chance(all);
}

// ---- the journey -------------------------------------------------------------------------------

struct Journey {
  JobId first;
  JobId second;
  JobId third;
  DeliveryId delivery;
};

using Step = std::function<std::shared_ptr<Outcome>(World&, Journey&)>;

template <class T>
const T* answer_of(const std::shared_ptr<Outcome>& outcome) {
  if (!outcome->answered || !outcome->result) return nullptr;
  return std::get_if<T>(&*outcome->result);
}

std::shared_ptr<Outcome> launch(World& world, engine::RunRequest request, const char* key,
                                JobId& into) {
  request.key = IdempotencyKey(key);
  const auto outcome = world.post(std::move(request));
  if (const auto* made = answer_of<RunReply>(outcome)) into = made->job.id;
  return outcome;
}

std::vector<Step> journey() {
  const auto took = [](Journey& j, const std::shared_ptr<Outcome>& outcome) {
    if (const auto* reply = answer_of<TurnReply>(outcome)) {
      if (reply->messages) j.delivery = reply->messages->delivery;
    }
    if (const auto* reply = answer_of<InboxReply>(outcome)) {
      if (reply->hand_over) j.delivery = reply->hand_over->delivery;
    }
    return outcome;
  };
  return {
      [](World& w, Journey&) { return w.post(attach(host())); },
      [](World& w, Journey&) { return w.post(turn(host(), core::TurnVerb::begin)); },
      [](World& w, Journey& j) {
        return launch(w, turn_command(host(), "a", "t1"), "k1", j.first);
      },
      [](World& w, Journey& j) { return launch(w, command(host(), "b", "t1"), "k2", j.second); },
      [](World& w, Journey& j) { return launch(w, command(host(), "c"), "k3", j.third); },
      [](World& w, Journey& j) {
        auto facts = w.finished_facts(j.first, 3);
        facts.tail = std::string(3000, 'x');
        return w.post(engine::ObservedFacts{facts});
      },
      [took](World& w, Journey& j) { return took(j, w.post(turn(host(), core::TurnVerb::step))); },
      [](World& w, Journey& j) { return w.post(engine::FlushedRequest{host(), j.delivery}); },
      [](World& w, Journey& j) {
        engine::StopRequest stop;
        stop.caller = host();
        stop.jobs = {j.third};
        return w.post(stop);
      },
      [](World& w, Journey& j) {
        auto facts = w.finished_facts(j.third, 0);
        facts.exit = core::Exit::signaled(15, false);
        facts.ended_by = core::EndedBy::stop;
        return w.post(engine::ObservedFacts{facts});
      },
      [](World& w, Journey&) { return w.post(turn(host(), core::TurnVerb::end)); },
      [](World& w, Journey& j) {
        return w.post(engine::ObservedFacts{w.finished_facts(j.second, 0)});
      },
      [took](World& w, Journey& j) { return took(j, w.post(inbox(host()))); },
      [](World& w, Journey& j) { return w.post(engine::AckRequest{host(), {j.delivery.str()}}); },
  };
}

// What the store holds after each step when nothing fails; [0]: before the first.
std::vector<std::string> undisturbed(std::uint64_t& operations) {
  CrashDisk disk;
  World world;
  std::vector<std::string> after{content(world.db())};
  disk.crash_at(0);
  Journey state;
  for (const Step& step : journey()) {
    const auto outcome = step(world, state);
    EXPECT_TRUE(outcome->answered && outcome->result) << "step " << after.size();
    after.push_back(content(world.db()));
  }
  operations = disk.operations();
  return after;
}

// ---- the audit ---------------------------------------------------------------------------------

// From whatever the failure left: the launches are asked for again under their keys, what runs
// ends, and the host takes everything.
void drive_on_and_audit(World& world) {
  ASSERT_TRUE(world.start());
  Journey state;
  ASSERT_TRUE(world.post(attach(host("s1", "k1", 2)))->result);
  ASSERT_TRUE(launch(world, command(host("s1", "k1", 2), "b", "t1"), "k2", state.second)->result);
  ASSERT_TRUE(launch(world, command(host("s1", "k1", 2), "c"), "k3", state.third)->result);
  std::set<JobId> jobs;
  for (const std::string& id : texts(world.db(), "SELECT job FROM job")) jobs.insert(JobId(id));
  EXPECT_LE(jobs.size(), 3U);  // a key made one job
  for (const JobId& job : jobs) world.ended(job, 5);
  std::map<std::string, int> heard;
  for (int turns = 0; turns < 10; ++turns) {
    world.post(turn(host("s1", "k1", 2), core::TurnVerb::abandon));
    const auto taken = world.ask<InboxReply>(inbox(host("s1", "k1", 2)));
    if (!taken.hand_over) break;
    for (const auto& event : taken.hand_over->events) {
      // Heard before only as a repeat of the same.
      EXPECT_TRUE(heard[event.id.str()]++ == 0 || event.repeat) << event.id.str();
    }
    world.ask<std::monostate>(
        engine::FlushedRequest{host("s1", "k1", 2), taken.hand_over->delivery});
  }
  world.post(inbox(host("s1", "k1", 2)));
  const auto endings = texts(world.db(),
                             "SELECT count(*) FROM receipt WHERE name IN ('completed', 'failed', "
                             "'cancelled') GROUP BY job");
  EXPECT_EQ(endings.size(), jobs.size());
  for (const std::string& count : endings) EXPECT_EQ(count, "1");
  // Everything that must be heard was, and is acknowledged; nothing else was.
  EXPECT_EQ(texts(world.db(), "SELECT event FROM inbox WHERE state <> 'acked'").size(), 0U);
  EXPECT_EQ(texts(world.db(),
                  "SELECT job FROM receipt r WHERE name IN ('completed', 'failed') AND NOT EXISTS "
                  "(SELECT 1 FROM inbox i WHERE i.job = r.job)")
                .size(),
            0U);
  EXPECT_EQ(
      texts(world.db(), "SELECT kind FROM owed WHERE kind IN ('supervise', 'stop_stuck')").size(),
      0U);
  EXPECT_EQ(*world.db().integer("SELECT running + queued FROM session", {}), 0);
}

struct Failure {
  const char* name;
  Unsynced unsynced;
  int checkpoint;  // pages after which the log is copied into the store
};

class PowerTest : public ::testing::TestWithParam<Failure> {};

void fail_at(std::uint64_t operation, const std::vector<std::string>& after, std::uint64_t seed) {
  const Failure& how = PowerTest::GetParam();
  CrashDisk disk;
  World world;
  ASSERT_TRUE(world.db().script("PRAGMA wal_autocheckpoint=" + std::to_string(how.checkpoint)));
  disk.crash_at(operation);
  Journey state;
  std::size_t done = 0;
  bool answered = false;
  for (const Step& step : journey()) {
    const auto outcome = step(world, state);
    ++done;
    if (!disk.crashed()) continue;
    answered = outcome->answered && outcome->result;
    break;
  }
  world.close();
  disk.power_on(how.unsynced, seed);
  auto found = store::open_store(world.path(), world.clock);
  ASSERT_TRUE(found) << found.error().message;
  const std::string there = content(*found->writer);
  found->writer.reset();
  EXPECT_TRUE(there == after[done] || (!answered && there == after[done - 1]))
      << "step " << done << (answered ? ", answered" : ", not answered") << "\n"
      << there << "instead of\n"
      << after[done - 1] << "or\n"
      << after[done];
  drive_on_and_audit(world);
}

TEST_P(PowerTest, I6_power_fails_at_every_write_and_the_answered_prefix_is_there) {
  std::uint64_t operations = 0;
  const std::vector<std::string> after = undisturbed(operations);
  ASSERT_GT(operations, 100U);
  for (std::uint64_t n = 1; n <= operations; ++n) {
    SCOPED_TRACE("operation " + std::to_string(n));
    fail_at(n, after, n);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Disk, PowerTest,
                         ::testing::Values(Failure{"lost", Unsynced::lost, 2000},
                                           Failure{"kept", Unsynced::kept, 2000},
                                           Failure{"mixed", Unsynced::mixed, 2000},
                                           Failure{"lost_in_checkpoints", Unsynced::lost, 4},
                                           Failure{"mixed_in_checkpoints", Unsynced::mixed, 4}),
                         [](const auto& row) { return std::string(row.param.name); });

// A store that is being made when the power fails is a new one at the next start, or a whole one.
TEST(PowerTest, I6_power_fails_while_the_store_is_made) {
  ManualClock clock;
  for (std::uint64_t n = 1;; ++n) {
    SCOPED_TRACE("operation " + std::to_string(n));
    std::string pattern = (std::filesystem::temp_directory_path() / "waybill-new-XXXXXX").string();
    const std::filesystem::path dir = ::mkdtemp(pattern.data());
    const std::string path = (dir / "waybill.db").string();
    CrashDisk disk;
    disk.crash_at(n);
    {
      const auto made = store::open_store(path, clock);
    }
    const bool crashed = disk.crashed();
    disk.power_on(Unsynced::mixed, n);
    {
      const auto opened = store::open_store(path, clock);
      EXPECT_TRUE(opened) << opened.error().message;
    }
    std::filesystem::remove_all(dir);
    if (!crashed || HasFailure()) break;
  }
}

}  // namespace
}  // namespace waybill::test
