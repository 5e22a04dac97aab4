"""croissant.json: MLCommons Croissant 1.1, with the context written out so that no reader needs the network."""

from typing import Any

import pyarrow as pa

from searchveil.publish.card.description import TO_FILL_IN, DataFile, Description

TERMS = (
    "arrayShape citeAs column containedIn equivalentProperty extract field fileObject fileProperty fileSet format "
    "includes isArray isLiveDataset jsonPath key md5 parentField path recordSet references regex repeated replace "
    "samplingRate separator source subField transform"
)
CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "name": {"@container": "@language"},
    "description": {"@container": "@language"},
    **{term: f"cr:{term}" for term in TERMS.split()},
}


def croissant(release: Description) -> dict[str, Any]:
    guarantee = release.plan.guarantee
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": ["http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0"],
        "name": release.name,
        "description": f"{release.title}. {guarantee}",
        "version": "1.0.0",
        "datePublished": release.date,
        "license": f"other ({TO_FILL_IN})",
        "url": "https://example.org/to-be-filled-in-by-the-publisher",
        "creator": {"@type": "sc:Organization", "name": TO_FILL_IN},
        "citeAs": f"{TO_FILL_IN}. {release.title}. {release.date}. Made with searchveil {release.version}.",
        "rai:personalSensitiveInformation": [
            "Made from search histories, which are personal and may be sensitive.",
            str(guarantee),
        ],
        "rai:dataLimitations": [*filter(None, (release.noise, release.selection)), *guarantee.caveats],
        "rai:dataBiases": [release.selection],
        "rai:dataManipulationProtocol": _how_it_was_made(release),
        "distribution": [_file(file) for file in release.files],
        "recordSet": [_records(file) for file in release.files],
    }


def _how_it_was_made(release: Description) -> str:
    parameters = ", ".join(f"{name} = {value}" for name, value in release.plan.parameters.items())
    return f"searchveil {release.version}, method {release.plan.method}, item {release.plan.item}; {parameters}"


def _file(file: DataFile) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": file.name,
        "name": file.name,
        "contentUrl": file.name,
        "contentSize": f"{file.size} B",
        "encodingFormat": file.media_type,
        "sha256": file.sha256,
    }


def _records(file: DataFile) -> dict[str, Any]:
    return {
        "@type": "cr:RecordSet",
        "@id": file.table,
        "name": file.table,
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{file.table}/{column.name}",
                "name": column.name,
                **_data_type(column.type),
                "source": {"fileObject": {"@id": file.name}, "extract": {"column": column.name}},
            }
            for column in file.schema
        ],
    }


def _data_type(of: pa.DataType) -> dict[str, Any]:
    if pa.types.is_list(of) or pa.types.is_large_list(of):
        return {**_data_type(of.value_type), "isArray": True, "arrayShape": "-1"}
    for holds, name in (
        (pa.types.is_boolean, "sc:Boolean"),
        (pa.types.is_integer, "sc:Integer"),
        (pa.types.is_floating, "sc:Float"),
        (pa.types.is_date, "sc:Date"),
        (pa.types.is_timestamp, "sc:DateTime"),
    ):
        if holds(of):
            return {"dataType": name}
    return {"dataType": "sc:Text"}
