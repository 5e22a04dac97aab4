"""Logs of engines that do not say who searched: refused in words that tell what can be read."""

from pathlib import Path

import pytest

from searchveil.engine import Engine
from searchveil.errors import InputError
from searchveil.log import read_log

SLOW = (
    "[2024-05-01T10:00:00,123][WARN ][index.search.slowlog.query] [node-1] [shop][0] took[5.1s], took_millis[5100], "
    'total_hits[10 hits], search_type[QUERY_THEN_FETCH], source[{"query":{"match":{"title":{"query":"shoe"}}}}], id[],'
)
OLDER_SLOW = (
    "[2024-05-01T10:00:00,123][TRACE][i.s.s.query              ] [node-1] [shop][0] took[5ms], source[{}], id[],"
)
JSON_SLOW = (
    '{"@timestamp":"2024-05-01T10:00:00.123Z","log.level":"WARN","elasticsearch.slowlog.took":"5s",'
    '"elasticsearch.slowlog.source":"{}","event.dataset":"elasticsearch.index_search_slowlog"}'
)
SOLR = (
    "2024-05-01 10:00:00.000 INFO  (qtp1-18) [   x:shop] o.a.s.c.S.Request [shop]  webapp=/solr path=/select "
    "params={q=shoe&wt=json} hits=10 status=0 QTime=3"
)
MATOMO = "idSite,idVisit,visitorId,actionDetails 0 type,actionDetails 0 siteSearchKeyword\n1,2,abc,search,shoe"


@pytest.mark.parametrize(
    ("name", "line", "said"),
    [
        ("slow.log", SLOW, "is a slow log of Elasticsearch or OpenSearch"),
        ("slow.log", OLDER_SLOW, "is a slow log of Elasticsearch or OpenSearch"),
        ("slow.json", JSON_SLOW, "is a slow log of Elasticsearch or OpenSearch"),
        ("solr.log", SOLR, "read the access log of the web server before Solr"),
        ("visits.csv", MATOMO, "export the visits as JSON"),
    ],
)
def test_what_does_not_say_who_is_refused(
    name: str, line: str, said: str, tmp_path: Path, duckdb_engine: Engine
) -> None:
    (tmp_path / name).write_text(f"{line}\n" * 3)
    with pytest.raises(InputError, match=said) as refused:
        read_log(tmp_path / name, engine=duckdb_engine)
    assert str(refused.value).startswith(f"{name}: ")
    assert "shoe" not in str(refused.value)


def test_a_log_in_which_such_words_were_searched_is_read(tmp_path: Path, duckdb_engine: Engine) -> None:
    rows = "".join(f'u{i},"{text}"\n' for i, text in enumerate(("elasticsearch.slowlog", "solr path=/x QTime=3")))
    (tmp_path / "log.csv").write_text("user,query\n" + rows)
    assert read_log(tmp_path / "log.csv", engine=duckdb_engine).table.count().execute() == 2
